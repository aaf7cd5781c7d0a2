//! How much inline data a device takes.
//!
//! `ibverbs` does not say it: whether a queue pair may have so much shows when one is made.

use crate::device::ContextInner;
use crate::ffi::{Cq, Pd, Qp, QpSizes};
use std::rc::Rc;
use weft_verbs::{Result, VerbsError};

/// What is tried, the most first. mlx4, mlx5 and rxe take the first, E810 of irdma and bnxt_re the second, X722 of irdma the third.
const TRIED: [u32; 4] = [220, 96, 48, 16];

/// The most that this backend offers of a device, which grants so much of what is asked, or refuses that. What has another reason says
/// nothing: then it is what most devices take.
fn most(mut grants: impl FnMut(u32) -> Result<u32>) -> u32 {
    for asked in TRIED {
        match grants(asked) {
            Ok(granted) => return granted.min(asked),
            Err(VerbsError::Os { errno: libc::EINVAL, .. }) => {}
            Err(_) => return TRIED[0],
        }
    }
    0
}

impl ContextInner {
    /// The most inline data of a request, asked of the device once.
    pub(crate) fn max_inline(&self) -> u32 {
        *self.inline.get_or_init(|| most(|asked| self.grants_inline(asked)))
    }

    /// Makes a queue pair that is to take so much, and says how much it takes.
    fn grants_inline(&self, asked: u32) -> Result<u32> {
        let pd = Rc::new(Pd::alloc(&self.raw)?);
        let cq = Rc::new(Cq::create(&self.raw, 1, 0, None)?);
        let sizes = QpSizes { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: asked };
        Ok(Qp::create(&pd, false, (&cq, &cq), None, sizes, false)?.inline())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid() -> VerbsError {
        VerbsError::Os { call: "ibv_create_qp", errno: libc::EINVAL }
    }

    /// A device that refuses more than that.
    fn refuses_more_than(limit: u32) -> impl FnMut(u32) -> Result<u32> {
        move |asked| if asked > limit { Err(invalid()) } else { Ok(asked) }
    }

    #[test]
    fn no_more_inline_data_is_offered_than_the_device_takes() {
        assert_eq!([1_024, 220, 101, 96, 48, 32, 8].map(|limit| most(refuses_more_than(limit))), [220, 220, 96, 96, 48, 16, 0]);
        assert_eq!(most(|_| Ok(32)), 32, "a device that grants less than is asked");
        assert_eq!(most(|asked| Ok(asked.next_power_of_two())), 220, "or more");
    }

    #[test]
    fn what_a_device_takes_is_not_less_because_memory_is_short() {
        let short = VerbsError::Os { call: "ibv_create_qp", errno: libc::ENOMEM };
        assert_eq!(most(|_| Err(short)), 220);
    }
}

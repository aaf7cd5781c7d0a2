//! The service at which an end listens: drawn at random, for no number of a process is its machine's own where containers share a network.

use std::ops::Range;
use weft_verbs::{Result, Service, VerbsError};

/// Below the ports that the system gives to who calls (`ip_local_port_range`).
const SERVICES: Range<u16> = 20_000..32_768;
/// How often one is drawn that another program has.
const TRIES: usize = 16;

/// Draws a service that can be had.
///
/// # Errors
/// Those of the trial; of one that is taken where all were that were drawn.
pub fn drawn(
    mut random: impl FnMut() -> u64,
    mut try_it: impl FnMut(Service) -> Result<()>,
) -> Result<Service> {
    let mut taken = VerbsError::Busy("the service");
    for _ in 0..TRIES {
        let service = Service(SERVICES.start + (random() % SERVICES.len() as u64) as u16);
        match try_it(service) {
            Ok(()) => return Ok(service),
            Err(why @ VerbsError::Busy(_)) => taken = why,
            Err(why) => return Err(why),
        }
    }
    Err(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers, and which service is drawn of them where those are taken.
    fn of(numbers: impl IntoIterator<Item = u64>, taken: &[u16]) -> Result<Service> {
        let mut numbers = numbers.into_iter();
        let try_it = |Service(number)| match taken.contains(&number) {
            true => Err(VerbsError::Busy("rdma_bind_addr")),
            false => Ok(()),
        };
        drawn(|| numbers.next().expect("it gives up before"), try_it)
    }

    #[test]
    fn a_service_that_another_program_has_is_not_taken() {
        assert_eq!(of([3, 3, 4], &[20_003]), Ok(Service(20_004)));
        assert_eq!(of(std::iter::repeat(3), &[20_003]), Err(VerbsError::Busy("rdma_bind_addr")));
    }

    #[test]
    fn no_service_is_one_that_the_system_gives_to_who_calls() {
        assert_eq!(of([u64::MAX], &[]).map(|Service(number)| SERVICES.contains(&number)), Ok(true));
        assert_eq!(of([32_767 - 20_000], &[]), Ok(Service(32_767)));
        assert_eq!(of([32_768 - 20_000], &[]), Ok(Service(20_000)));
    }

    #[test]
    fn what_else_refuses_a_service_is_told() {
        assert_eq!(drawn(|| 0, |_| Err(VerbsError::DeviceGone)), Err(VerbsError::DeviceGone));
    }
}

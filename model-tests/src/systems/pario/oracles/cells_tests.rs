use super::super::super::content::Run;
use super::*;

const FILE: u64 = 1;

/// More than a sector, so that a crash may leave a part of a write.
const CELL: Cells = Cells { file: FILE, first: 0, cells: 1, rows: 1, stride: 0, bytes: 4_096 };

const fn client(node: u32) -> ClientId {
    ClientId { node, index: 0 }
}

/// What happens to the only request of each client, in order; whether all of it may be.
fn may_be(survival: Survival, history: &[(u32, What)]) -> bool {
    let mut oracle = Linearizable { survival, ..Linearizable::default() };
    let mut happens = |(at, (node, what)): (u64, &(u32, What))| {
        let at_ns = 1_000 * at;
        if *what == What::Restarted {
            oracle.restarted(*node, true, Nanos(at_ns));
            return true;
        }
        let request = RequestId { client: client(*node), number: 0 };
        oracle.observe(&Event { at_ns, request, what: what.clone() }).is_ok()
    };
    (1..).zip(history).all(&mut happens)
}

fn calls(node: u32, call: Call, end: What) -> Vec<(u32, What)> {
    vec![(node, What::Calls(call)), (node, end)]
}

fn writes(node: u32) -> Vec<(u32, What)> {
    calls(node, Call::Write(CELL), What::Done)
}

/// A client reads what another one has written; or nothing.
fn reads(node: u32, by: Option<u32>) -> Vec<(u32, What)> {
    let value = by.map_or(Value::Zero, |node| Value::Of(RequestId { client: client(node), number: 0 }));
    calls(node, Call::Read(CELL), What::Has(vec![Run { first: 0, cells: 1, value }]))
}

#[test]
fn what_is_written_after_a_crash_is_there_though_that_may_have_left_anything() {
    for survival in [Survival::Synced, Survival::Names, Survival::Nothing] {
        let crashed = [writes(1), vec![(0, What::Restarted)]].concat();
        let then = |rest: &[Vec<(u32, What)>]| may_be(survival, &[crashed.clone(), rest.concat()].concat());
        assert!(then(&[reads(9, Some(7))]), "{survival:?}: a part of something");
        assert!(then(&[writes(2), reads(9, Some(2))]), "{survival:?}");
        for old in [None, Some(1), Some(7)] {
            assert!(!then(&[writes(2), reads(9, old)]), "{survival:?}: it was written since");
            let both = writes(2);
            let beside = [both[..1].to_vec(), reads(9, old)[..1].to_vec(), both[1..].to_vec()].concat();
            assert!(then(&[beside, reads(9, old)[1..].to_vec()]), "{survival:?}: it was read meanwhile");
        }
        let again = [writes(2), vec![(0, What::Restarted)], reads(9, Some(7))];
        assert!(then(&again), "{survival:?}: another crash");
    }
}

#[test]
fn a_file_is_cut_once_any_member_of_the_group_is_told_so() {
    let cuts = [writes(1), vec![(1, What::Calls(Call::Truncate(FILE, 0, 0)))]].concat();
    let then =
        |rest: &[Vec<(u32, What)>]| may_be(Survival::Answered, &[cuts.clone(), rest.concat()].concat());
    let told = |first| calls(2, Call::CutBy(client(first), FILE), What::Done);
    assert!(then(&[reads(9, Some(1))]) && then(&[reads(9, None)]), "it is on its way");
    assert!(then(&[told(1), reads(9, None)]) && !then(&[told(1), reads(9, Some(1))]));
    assert!(then(&[told(3), reads(9, Some(1))]), "that was another group's");
}

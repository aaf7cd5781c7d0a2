//! Members that want to leave, of a view that would be too small without them: what else has changed makes a view all the same.

use super::*;

/// Worlds found it: the view stayed as it was, with the dead one, and whoever waited for that one did so for ever.
#[test]
fn one_that_dies_is_left_out_beside_one_that_wants_to_leave_and_has_to_stay() {
    let mut net = standing();
    net.crash(1);
    net.tell(3, Event::Watch(rank(1), true));
    net.settle();
    net.pass(CONFIG.patience.0 + 10);
    net.tell(2, Event::Leave);
    net.settle();
    net.pass(2 * CONFIG.patience.0);
    assert_eq!(net.members(3), [(2, 2), (3, 3)]);
    assert_eq!(net.members(2), net.members(3));
    assert_eq!(net.core(3).deadline(), None, "nothing more is due");
    // Enough would stay now.
    net.boot(CONFIG, 1);
    net.settle();
    net.pass(300);
    assert_eq!(net.members(3), [(1, 4), (3, 3)]);
    assert!(net.core(2).is_out());
}

#[test]
fn one_that_is_back_is_let_in_beside_two_that_want_to_leave_and_have_to_stay() {
    let mut net = standing();
    net.crash(1);
    for n in [3, 2] {
        net.tell(n, Event::Leave);
        net.settle();
    }
    net.pass(300);
    assert_eq!(net.members(2), ALL, "nobody knows that one of them is dead");
    net.boot(CONFIG, 1);
    net.settle();
    net.pass(300);
    let members = [(1, 4), (2, 2), (3, 3)];
    assert!((1..=3).all(|n| net.members(n) == members), "{:?}", [1, 2, 3].map(|n| net.members(n)));
    assert_eq!([1, 2, 3].map(|n| net.core(n).deadline()), [None; 3]);
}

//! What goes in comes back, and what misses is said.

use super::goals::goals;
use super::*;

#[test]
fn the_primitives_come_back_as_they_went_in() {
    let profile = Profile::builtin("elan4-2005").expect("a shipped profile");
    let rows = primitives::rows(&profile).expect("experiments that end");
    let goals = goals(&rows);
    assert_eq!(goals.len(), 2, "{rows:#?}");
    let latencies = &goals[0];
    assert!(latencies.met, "{latencies:?}");
}

#[test]
fn creation_and_resizing_by_elan4_come_out_and_resizing_by_tcp_is_said_to_miss() {
    let profile = Profile::builtin("elan4-2005").expect("a shipped profile");
    let rows = procedures::rows(&profile).expect("experiments that end");
    assert_eq!(rows.len(), 24);
    let met: Vec<bool> = goals(&rows).iter().map(|goal| goal.met).collect();
    assert_eq!(met, [true, true, false], "{rows:#?}");
}

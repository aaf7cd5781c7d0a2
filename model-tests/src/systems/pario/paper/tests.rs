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

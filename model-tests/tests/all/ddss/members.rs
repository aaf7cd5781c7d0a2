//! Segments among members of which most die, and some are left out alive. `weft fuzz swarm-16-ddss-members` found these; a file's name says
//! what.

use crate::common::assert_kept;

/// Homes began anew, and asked nodes to drain a segment that knew them as dead: these refused, and were waited for. Nodes whose view
/// was lost dropped what others waited for: answers, turns, locks.
#[test]
fn a_release_does_not_wait_for_a_node_that_has_no_part_any_more() {
    assert_kept(include_str!("a_release_waits_for_one_that_is_out.toml"), 3);
    assert_kept(include_str!("most_nodes_die.toml"), 12);
}

/// A home that lived refused one that had been left out, whose transport knew so before its membership: its calls ended as if the home
/// had died.
#[test]
fn a_node_that_is_refused_does_not_take_its_home_for_dead() {
    assert_kept(include_str!("refused_by_a_home_that_lives.toml"), 8);
}

/// A node without a view asked one that had retired, by which the request was lost; no view said so, since none had begun where it waited.
#[test]
fn nobody_is_asked_before_there_is_a_view() {
    assert_kept(include_str!("asked_before_the_first_view.toml"), 49);
}

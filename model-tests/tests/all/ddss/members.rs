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

/// A node that came into a view asked one that had been left out before: that one had retired, which dropped the request, and no view here
/// ever had it. Or a home asked it to drain a segment that it had never opened.
#[test]
fn only_members_are_asked_and_waited_for() {
    assert_kept(include_str!("asked_one_that_has_retired.toml"), 78);
    assert_kept(include_str!("drained_by_one_that_has_retired.toml"), 190);
}

/// A home did not wait for a node that it knew as dead, and revoked the key. The node lived, and read the header to say that it had drained:
/// that broke the connection, and it read again, for ever.
#[test]
fn to_drain_a_segment_ends_however_its_read_ends() {
    assert_kept(include_str!("drains_what_is_revoked.toml"), 122);
}

/// A request for a turn waited for room until its home had begun anew. The new incarnation granted a turn that nobody took.
#[test]
fn nothing_that_was_meant_for_an_incarnation_is_said_to_the_next() {
    assert_kept(include_str!("said_to_the_next_incarnation.toml"), 1185);
}

/// Members gave up the lineage that had begun with a cold start, of whose first list a majority still lived. They proposed that list again and
/// again, and none of them begins it twice.
#[test]
fn a_list_that_was_begun_and_given_up_keeps_no_other_from_being_decided() {
    assert_kept(include_str!("begun_and_given_up.toml"), 3909);
}

/// A home whose view was lost heard a request of a node's next incarnation before the view that said that the last one had died: that one's
/// death ended the next one's part, and the answer was for the dead.
#[test]
fn a_home_whose_view_is_lost_hears_who_has_died_before_it_hears_who_comes_next() {
    assert_kept(include_str!("asked_of_one_whose_view_was_lost.toml"), 103_489);
}

/// A node asked for a turn, which its home kept for the view to come, and then had no part any more, which counts at once. The view came,
/// and the node was given a turn.
#[test]
fn who_has_no_part_any_more_does_not_wait_for_what_it_asked_before() {
    assert_kept(include_str!("asked_before_it_parted.toml"), 111_633);
}

/// A node that had drained a segment said so before the home's view had it, and then that it has no part in another one any more: with its calls the
/// home forgot that it had drained, and waited for that.
#[test]
fn that_a_node_has_drained_a_segment_counts_whatever_it_says_next() {
    assert_kept(include_str!("drained_before_it_parted.toml"), 5895);
}

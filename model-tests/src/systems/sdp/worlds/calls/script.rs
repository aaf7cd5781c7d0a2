//! What users call, as a world's size says it: letters, and a mark behind each call that its user may drop.

use crate::harness::Requests;

/// The letters, for people.
pub(super) const LETTERS: &str = "scripts of the node that connects, and of the other one for each connection that it accepts, as in \
     cws!x,re: c connects, w and W write 24 bytes (W by try_write), r and R read 24 (R by peek and try_read), s sends 40 from an owned \
     buffer, v receives up to 40 into one, e reads to the end, z resizes private buffers, f shuts down, k and K ask how much is \
     acknowledged (K: all of it), x closes, d drops the stream, b aborts it, B aborts all; '!' behind a call that may be dropped while it \
     waits, '?' behind one that is left and dropped later, '+' between users who share the stream";

/// When a call is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Never,
    /// At any moment while it waits.
    Waiting,
    /// At any moment after its first step, whatever has come of it.
    Whatever,
}

/// A call of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Called {
    pub letter: char,
    pub left: Left,
}

/// The calls that letters stand for; none if there is one that nobody knows.
pub(super) fn calls(letters: &str) -> Option<Vec<Called>> {
    let mut all = Vec::new();
    for letter in letters.chars() {
        match (letter, all.last_mut()) {
            ('!', Some(Called { left: left @ Left::Never, .. })) => *left = Left::Waiting,
            ('?', Some(Called { left: left @ Left::Never, .. })) => *left = Left::Whatever,
            _ if "cwWrRsvezfkKxdbB".contains(letter) => all.push(Called { letter, left: Left::Never }),
            _ => return None,
        }
    }
    Some(all)
}

/// Refuses what no user calls: one that connects, which is the first of its node, or another one; and it may share the stream with others.
///
/// # Errors
///
/// What is wrong, for people.
pub(super) fn check(calls: &[Called], connects: bool, shares: bool) -> Result<(), &'static str> {
    let connections = calls.iter().filter(|call| is_connect(call)).count();
    if if connects { calls.first().is_some_and(|first| !is_connect(first)) } else { connections > 0 } {
        return Err(
            "the first user of the first node, and no other one, connects (c) before its other calls",
        );
    }
    if shares && connections > 1 {
        return Err("who shares the stream with others (+) connects (c) once");
    }
    for (at, call) in calls.iter().enumerate() {
        let next = calls.get(at + 1);
        if "xdb".contains(call.letter) && !next.is_none_or(is_connect) {
            return Err("behind the end of a stream (x, d, b) there is nothing, or a connect (c)");
        }
        // Nobody knows whether the other node accepted a connection that was given up.
        if is_connect(call) && call.left != Left::Never && !next.is_some_and(is_connect) {
            return Err("behind a connect that may be dropped (c!) there is another one (c)");
        }
    }
    Ok(())
}

/// Refuses users of one end of whom one writes or resizes what was shut down by then, by itself or by another one: such a call fails, and
/// what a send was to bring stays away, though no promise is broken.
///
/// # Errors
///
/// What is wrong, for people.
pub(super) fn check_end(users: &[Vec<Called>]) -> Result<(), &'static str> {
    let writes = |call: &Called| "wWsz".contains(call.letter);
    let shuts = |call: &Called| call.letter == 'f';
    let late = |calls: &[Called]| calls.iter().skip_while(|call| !shuts(call)).any(writes);
    let behind_own = users.iter().flat_map(|calls| calls.split(is_connect)).any(late);
    let beside = |shut: usize| (0..users.len()).any(|user| user != shut && users[user].iter().any(writes));
    let beside_another = (0..users.len()).any(|shut| users[shut].iter().any(shuts) && beside(shut));
    if behind_own || beside_another {
        return Err(
            "behind a shutdown (f), or beside one of another user (+), nobody writes (w, W, s) or resizes (z)",
        );
    }
    Ok(())
}

fn is_connect(call: &Called) -> bool {
    call.letter == 'c'
}

/// Whether a node has a call that may be dropped.
pub(super) fn drops(scripts: &Requests, node: u32) -> bool {
    scripts.of(node).any(|(_, letters)| letters.contains(['!', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_user_calls_is_refused() {
        let is_one =
            |letters, connects, shares| check(&calls(letters).expect("letters"), connects, shares).is_ok();
        for letters in ["cwx", "cwfxcwfx", "c!cwd", "", "ccw"] {
            assert!(is_one(letters, true, false), "{letters}");
        }
        for letters in ["wc", "cxw", "cbx", "cw!c!w", "c?"] {
            assert!(!is_one(letters, true, false), "{letters}");
        }
        assert!(is_one("cwx", true, true) && !is_one("ccw", true, true));
        assert!(is_one("rwx", false, true) && !is_one("crw", false, true));
    }

    #[test]
    fn nobody_writes_behind_a_shutdown() {
        let may = |users: &[&str]| {
            let users: Vec<Vec<Called>> =
                users.iter().map(|letters| calls(letters).expect("letters")).collect();
            check_end(&users).is_ok()
        };
        for users in [&["cwfe"][..], &["cwfxcwfx"], &["cWfx", "Re"], &["cw", "w"], &["fx", "fe"], &[""]] {
            assert!(may(users), "{users:?}");
        }
        for users in [&["cwfw"][..], &["cwW!w!wfw"], &["cfs!"], &["cfez"], &["cWf", "w"], &["cs", "rf"]] {
            assert!(!may(users), "{users:?}");
        }
    }

    #[test]
    fn a_mark_is_of_the_letter_before_it_and_no_letter_has_two() {
        let called = |letter, left| Called { letter, left };
        let expected = [('c', Left::Never), ('w', Left::Waiting), ('v', Left::Whatever), ('x', Left::Never)];
        assert_eq!(calls("cw!v?x"), Some(expected.map(|(letter, left)| called(letter, left)).to_vec()));
        assert_eq!([calls("!c"), calls("c!!"), calls("c?!"), calls("y")], [None, None, None, None]);
    }
}

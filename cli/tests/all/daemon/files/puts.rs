//! What is said of a put that fails, and of what it leaves.

use super::Pair;
use crate::common::{err, out, weft};
use std::io::Write;
use std::process::Stdio;

/// Its next bytes go to a part that is elsewhere by then, or its last call, which gives that its own name.
#[test]
fn a_put_whose_directory_gets_another_path_meanwhile_says_that_its_part_may_be_left_there() {
    let pair = Pair::start("put-moved");
    for (n, more) in [(0, &[7; 300_000][..]), (1, &[])] {
        let (before, after) = (format!("before-{n}"), format!("after-{n}"));
        assert_eq!(pair.ask(&["mkdir", &before]).status.code(), Some(0));
        let mut put = weft(&pair.asks(&["put", "-", &format!("{before}/f")]));
        let mut put = put.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut input = put.stdin.take().expect("piped");
        // Two calls, which have ended before the directory gets its other path.
        input.write_all(&[7; 2 * 98_304]).expect("it reads");
        while !out(&pair.ask(&["ls", "--long", &before])).contains("196,608") {}
        let part = out(&pair.ask(&["ls", &before])).trim().to_string();
        assert_eq!(pair.ask(&["mv", &before, &after]).status.code(), Some(0));
        // It may have ended by then.
        let _ = input.write_all(more);
        drop(input);
        let ended = put.wait_with_output().expect("ends");
        let left =
            format!("{before}/{part} may be left where its directory is by now, to be removed by weft fs rm");
        assert_eq!(ended.status.code(), Some(2), "{}", err(&ended));
        assert!(err(&ended).trim_end().ends_with(&left), "{}", err(&ended));
        assert_eq!(pair.ask(&["rm", &format!("{after}/{part}")]).status.code(), Some(0));
    }
}

#[test]
fn a_local_file_that_cannot_be_read_is_named_and_nothing_is_left_of_its_put() {
    let pair = Pair::start("put-unread");
    // There is nothing at its first byte.
    let ended = pair.ask(&["put", "/proc/self/mem", "f"]);
    let line = "weft: /proc/self/mem: Input/output error (os error 5)\n";
    assert_eq!((ended.status.code(), err(&ended)), (Some(3), line));
    assert_eq!(pair.names(), "");
}

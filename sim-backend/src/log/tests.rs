//! The log's form, its sinks, and its digest.

use super::entry::Posted;
use super::*;
use crate::hca::Op;

fn some_lines(log: &mut Log) {
    log.line(Nanos(4_070), NodeId(1), Kind::Rx, format_args!("qp={} psn={}", 17, 5));
    log.line(Nanos(1_234_567_890_123_456), NodeId(1_023), Kind::Complete, format_args!("wr=9 ok"));
}

const TEXT: &str = "        4070 n1   rx       qp=17 psn=5\n\
                    1234567890123456 n1023 complete wr=9 ok\n";

#[test]
fn lines_have_one_form_to_the_byte() {
    let mut log = Log::memory();
    some_lines(&mut log);
    assert_eq!((String::from_utf8(log.take()).unwrap().as_str(), log.lines()), (TEXT, 2));
    assert!(log.take().is_empty());
}

#[test]
fn all_sinks_agree_on_the_digest() {
    let (mut a, mut b, mut c) = (Log::memory(), Log::digest_only(), Log::to(Box::new(io::sink())));
    for log in [&mut a, &mut b, &mut c] {
        some_lines(log);
        log.entry(Nanos(9), NodeId(2), Kind::Post, &Posted::Recv { wr: 7 });
    }
    assert_eq!((a.digest(), b.digest()), (b.digest(), c.digest()));
    assert_ne!(a.digest(), Log::memory().digest());
}

#[test]
fn the_digest_sees_every_byte_and_every_boundary() {
    let digest = |lines: &[&str]| {
        let mut digest = Digest::default();
        for line in lines {
            digest.write_str(line).unwrap();
            digest.end_text();
        }
        digest.value()
    };
    let all = [
        digest(&["abc", "de"]),
        digest(&["abcde"]),
        digest(&["abd", "de"]),
        digest(&["de", "abc"]),
        digest(&["abc"]),
        digest(&["abc", "de", ""]),
        digest(&["abc\0", "de"]),
        digest(&["a line of more than eight bytes"]),
        digest(&["a line of more than eight bytes\0"]),
        digest(&["a line oF more than eight bytes"]),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(!all[i + 1..].contains(a), "{i}");
    }
}

#[test]
fn a_text_is_digested_as_a_whole_in_whatever_pieces_it_comes() {
    let digest = |pieces: &[&str]| {
        let mut digest = Digest::default();
        pieces.iter().for_each(|piece| digest.write_str(piece).unwrap());
        digest.end_text();
        digest.value()
    };
    let whole = digest(&["qp=17 send psn=5"]);
    assert_eq!(whole, digest(&["qp=", "17", " send psn", "", "=5"]));
}

#[test]
fn values_are_digested_by_what_their_text_tells() {
    let digest = |at: u64, node: u32, kind, entry: &Posted| {
        let mut log = Log::digest_only();
        log.entry(Nanos(at), NodeId(node), kind, entry);
        log.digest()
    };
    let send = |imm| Posted::Send { wr: 7, op: Op::Send { imm } };
    let all = [
        digest(1, 2, Kind::Post, &Posted::Recv { wr: 7 }),
        digest(2, 2, Kind::Post, &Posted::Recv { wr: 7 }),
        digest(1, 3, Kind::Post, &Posted::Recv { wr: 7 }),
        digest(1, 2, Kind::Note, &Posted::Recv { wr: 7 }),
        digest(1, 2, Kind::Post, &Posted::Recv { wr: 8 }),
        digest(1, 2, Kind::Post, &Posted::Shared { srq: 0, wr: 7 }),
        digest(1, 2, Kind::Post, &send(None)),
        digest(1, 2, Kind::Post, &send(Some(0))),
        digest(1, 2, Kind::Post, &send(Some(1))),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(!all[i + 1..].contains(a), "{i}");
    }
    assert_eq!(all[0], digest(1, 2, Kind::Post, &Posted::Recv { wr: 7 }));
}

#[test]
fn text_that_nobody_reads_is_not_made() {
    #[derive(Hash)]
    struct Trap;
    impl fmt::Display for Trap {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted")
        }
    }
    let mut log = Log::digest_only();
    log.entry(Nanos(1), NodeId(0), Kind::Note, &Trap);
    assert_eq!(log.lines(), 1);
}

#[test]
fn a_log_that_is_off_formats_nothing() {
    struct Trap;
    impl fmt::Display for Trap {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted")
        }
    }
    let mut log = Log::off();
    log.line(Nanos(1), NodeId(0), Kind::Note, format_args!("{Trap}"));
    assert_eq!((log.lines(), log.is_on()), (0, false));
}

#[test]
fn a_writer_that_fails_is_told() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("disk full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut log = Log::to(Box::new(Full));
    some_lines(&mut log);
    assert_eq!(log.finish().unwrap_err().to_string(), "disk full");
}

//! Two ends by hand.

use super::*;
use crate::sdp::credits::LEAST_BUFFERS;
use crate::sdp::message::{Handle, Header, Message};
use crate::sdp::{Mode, Refusal};

#[path = "closing_tests.rs"]
mod closing;
#[path = "random_tests.rs"]
mod random;
#[path = "strange_tests.rs"]
mod strange;

fn greeting(place: u32, buffers: u32) -> Greeting {
    Greeting { from: Handle { place, use_of: 0 }, buffers, buffer_bytes: 10, adverts: 2 }
}

fn message(outgoing: Outgoing) -> Message<'static> {
    match outgoing {
        Outgoing::Hello(greeting) => Message::Hello { id: 0, port: 0, from_port: 0, greeting },
        Outgoing::HelloAck { to, greeting } => Message::HelloAck { to, greeting },
        Outgoing::Credits(header) => Message::Data { header, bytes: &[] },
        Outgoing::SrcAvail { header, source } => Message::SrcAvail { header, source },
        Outgoing::SinkAvail { header, start, sink } => Message::SinkAvail { header, start, sink },
        Outgoing::RdmaRdCompl { header, len } => Message::RdmaRdCompl { header, len },
        Outgoing::RdmaWrCompl { header, len } => Message::RdmaWrCompl { header, len },
        Outgoing::SrcAvailCancel(header) => Message::SrcAvailCancel { header },
        Outgoing::SendSm(header) => Message::SendSm { header },
        Outgoing::SinkAvailCancel(header) => Message::SinkAvailCancel { header },
        Outgoing::SinkCancelAck(header) => Message::SinkCancelAck { header },
        Outgoing::ModeChange { header, mode } => Message::ModeChange { header, mode },
        Outgoing::ChRcvBuf { header, bytes } => Message::ChRcvBuf { header, bytes },
        Outgoing::ChRcvBufAck { header, bytes } => Message::ChRcvBufAck { header, bytes },
        Outgoing::DisConn(header) => Message::DisConn { header },
        Outgoing::AbortConn { to, moved } => Message::AbortConn { to, moved },
    }
}

/// Two ends of a stream that stands.
fn pair(buffers: u32) -> [Endpoint; 2] {
    let mut asking = Endpoint::asking(greeting(1, buffers));
    assert_eq!(asking.next(), Some(Outgoing::Hello(greeting(1, buffers))));
    let mut accepting = Endpoint::accepting(greeting(2, buffers), greeting(1, buffers));
    let ack = accepting.next().expect("it answers");
    assert_eq!(asking.on_message(&message(ack)), Ok(Event::Connected));
    [asking, accepting]
}

/// One end sends all the control that it has, and the other receives it. What it did there.
fn exchange(from: &mut Endpoint, to: &mut Endpoint) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(outgoing) = from.next() {
        events.push(to.on_message(&message(outgoing)).expect("it fits"));
    }
    events
}

fn write(from: &mut Endpoint, to: &mut Endpoint, bytes: &'static [u8]) {
    assert!(from.may_write());
    let header = from.data(bytes.len() as u64);
    assert_eq!(to.on_message(&Message::Data { header, bytes }), Ok(Event::Data));
}

#[test]
fn a_stream_ends_when_both_ends_are_acknowledged_and_not_before() {
    let [mut a, mut b] = pair(8);
    write(&mut a, &mut b, b"abc");
    a.shutdown();
    assert!(!a.may_write() && !a.is_acknowledged());
    assert_eq!(exchange(&mut a, &mut b), [Event::End]);
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress], "the end is acknowledged");
    assert!(a.is_acknowledged() && !a.is_over() && !b.is_over());
    b.consumed();
    write(&mut b, &mut a, b"still");
    b.shutdown();
    assert_eq!(exchange(&mut b, &mut a), [Event::End]);
    assert!(!a.is_over(), "the peer waits to hear of its end");
    assert_eq!(exchange(&mut a, &mut b), [Event::Progress]);
    assert!(a.is_over() && b.is_over());
    assert_eq!(a.positions(), (3, 3));
}

#[test]
fn an_end_that_writes_no_more_still_returns_credits() {
    let [mut a, mut b] = pair(4);
    b.shutdown();
    exchange(&mut b, &mut a);
    exchange(&mut a, &mut b);
    for _ in 0..20 {
        write(&mut a, &mut b, b"x");
        b.consumed();
        exchange(&mut b, &mut a);
    }
}

#[test]
fn who_asks_an_end_whether_it_has_something_to_say_changes_nothing() {
    let [mut a, mut b] = pair(4);
    assert!(Endpoint::asking(greeting(1, 4)).has_to_say());
    for end in [&a, &b] {
        assert!(!end.has_to_say());
    }
    write(&mut a, &mut b, b"x");
    assert!(!b.has_to_say(), "one buffer is not returned by itself");
    b.shutdown();
    let before = b.clone();
    assert!(b.has_to_say() && b == before);
    assert_eq!(exchange(&mut b, &mut a), [Event::End]);
    assert!(!b.has_to_say() && a.has_to_say(), "the end is acknowledged");
}

#[test]
fn what_contradicts_the_state_is_a_violation() {
    let [mut a, b] = pair(4);
    let header = a.data(2);
    let data = |header, bytes| Message::Data { header, bytes };
    let refused = |message| {
        let mut end = b.clone();
        assert_eq!(end.on_message(&message), Err(Violation), "{message:?}");
    };
    refused(data(Header { at: 1, ..header }, b"ab"));
    refused(data(Header { acked: 1, ..header }, b"ab"));
    refused(data(Header { grant: header.grant + 1, ..header }, b"ab"));
    refused(data(header, b"more than a buffer"));
    refused(Message::HelloAck { to: header.to, greeting: greeting(1, 4) });
    refused(Message::Reject { to: header.to, why: Refusal::NoListener });
    let mut ended = b.clone();
    assert_eq!(ended.on_message(&Message::DisConn { header }), Ok(Event::End));
    let after = Header { at: 1, ..header };
    assert_eq!(ended.on_message(&data(after, b"a")), Err(Violation));
    assert_eq!(ended.on_message(&Message::DisConn { header: after }), Err(Violation));
    let mut flooded = b.clone();
    for at in 0..4 {
        assert_eq!(flooded.on_message(&data(Header { at, ..header }, b"a")), Ok(Event::Data));
    }
    assert_eq!(flooded.on_message(&data(Header { at: 4, ..header }, b"a")), Err(Violation), "no credit");
}

#[test]
fn an_abort_takes_no_credit_and_is_told_once() {
    let [mut a, mut b] = pair(4);
    while a.may_write() {
        write(&mut a, &mut b, b"x");
    }
    a.fail(Failure::Aborted, true);
    assert!(!a.is_over());
    assert_eq!(exchange(&mut a, &mut b), [Event::Aborted]);
    assert_eq!((a.is_over(), b.failure()), (true, Some(Failure::Reset)));
    assert!(matches!(b.next(), Some(Outgoing::AbortConn { .. })), "it says that it uses nothing any more");
    assert_eq!((a.next(), b.next(), b.is_over()), (None, None, true));
}

/// An end that had no room for its answer fails: who asked hears of the abort first, and is owed its reason.
#[test]
fn an_abort_before_the_answer_ends_a_connection_for_the_reason_that_it_has() {
    let reasons = [
        (Failure::AddressChanged { acknowledged: 0 }, Failure::AddressChanged { acknowledged: 0 }),
        (Failure::Aborted, Failure::Reset),
    ];
    for (why, told) in reasons {
        let mut asking = Endpoint::asking(greeting(1, 4));
        asking.next();
        let mut accepting = Endpoint::accepting(greeting(2, 4), greeting(1, 4));
        accepting.fail(why, true);
        assert_eq!(exchange(&mut accepting, &mut asking), [Event::Aborted]);
        assert_eq!((asking.failure(), asking.next()), (Some(told), None), "it knows nobody to answer");
        assert!(asking.is_over() && accepting.is_over());
    }
}

#[test]
fn a_connection_that_is_refused_or_given_up_is_over() {
    let mut end = Endpoint::asking(greeting(1, 4));
    end.next();
    let why = Refusal::BacklogFull;
    let reject = Message::Reject { to: Handle::default(), why };
    assert_eq!(end.on_message(&reject), Ok(Event::Aborted));
    assert_eq!((end.failure(), end.is_over()), (Some(Failure::Refused(why)), true));
    let mut end = Endpoint::asking(greeting(1, 4));
    end.fail(Failure::TimedOut, true);
    assert!(end.is_over(), "nobody knows of it");
}

fn slice(len: u32) -> RemoteSlice {
    RemoteSlice { addr: 1 << 20, len, rkey: 5 }
}

fn deliver(outgoing: Outgoing, to: &mut Endpoint) -> Event {
    to.on_message(&message(outgoing)).expect("it fits")
}

#[test]
fn an_advertised_range_counts_as_received_when_it_was_read_and_data_waits_for_that() {
    let [mut a, mut b] = pair(8);
    for len in [100, 50] {
        assert!(a.may_offer());
        let offered = a.offer(slice(len));
        assert_eq!(deliver(offered, &mut b), Event::Source(slice(len)));
    }
    assert!(!a.may_offer() && !a.may_write(), "two is the depth, and data waits");
    b.source_read();
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress]);
    assert_eq!((a.positions(), a.may_offer(), a.may_write()), ((150, 100), true, false));
    b.source_read();
    exchange(&mut b, &mut a);
    assert_eq!((a.positions(), a.may_write()), ((150, 150), true));
}

#[test]
fn ranges_that_were_read_may_together_be_more_than_the_word_of_them_can_say() {
    let [mut a, mut b] = pair(8);
    let len = 2_500_000_000;
    for _ in 0..2 {
        let offered = a.offer(slice(len));
        deliver(offered, &mut b);
        b.source_read();
    }
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress]);
    assert_eq!(a.positions(), (2 * u64::from(len), 2 * u64::from(len)));
}

#[test]
fn wanted_ranges_are_filled_in_order_and_a_short_one_voids_those_behind_it_at_both_ends() {
    let [mut a, mut b] = pair(8);
    for len in [10, 20] {
        assert!(b.may_want());
        let wanted = b.want(slice(len));
        assert_eq!(deliver(wanted, &mut a), Event::Sink);
    }
    assert_eq!(a.sink(), Some(slice(10)));
    a.begin_write();
    assert!(!a.may_write() && !a.may_offer() && a.sink().is_none());
    a.end_write(10);
    assert_eq!(exchange(&mut a, &mut b), [Event::Written(10)]);
    assert_eq!((a.sink(), b.wanted()), (Some(slice(20)), 1));
    let third = b.want(slice(30));
    a.begin_write();
    a.end_write(5);
    assert_eq!(exchange(&mut a, &mut b), [Event::Written(5)]);
    assert_eq!((a.sink(), b.wanted()), (None, 0));
    // It was sent before: its position, 30, is not the next one, and if it were it would be void, too.
    assert_eq!(deliver(third, &mut a), Event::Progress);
    assert_eq!(a.sink(), None);
}

/// The case that positions alone do not tell: the data that cross are just as long as the first wanted range.
#[test]
fn what_was_wanted_before_its_sender_saw_what_crossed_it_is_never_used() {
    let [mut a, mut b] = pair(8);
    let (first, second) = (b.want(slice(4)), b.want(slice(8)));
    write(&mut a, &mut b, b"four");
    assert_eq!(b.wanted(), 0, "the user may have its buffers back");
    assert_eq!(deliver(first, &mut a), Event::Progress);
    assert_eq!(deliver(second, &mut a), Event::Progress);
    assert_eq!(a.sink(), None);
    let fresh = b.want(slice(8));
    deliver(fresh, &mut a);
    assert_eq!(a.sink(), Some(slice(8)));
}

#[test]
fn memory_that_the_peer_may_use_is_not_given_back_before_the_peer_says_that_it_is_done() {
    let [mut a, mut b] = pair(8);
    let offered = a.offer(slice(9));
    deliver(offered, &mut b);
    b.set_reading(true);
    a.fail(Failure::TimedOut, true);
    assert_eq!(exchange(&mut a, &mut b), [Event::Aborted]);
    assert!(!a.is_over());
    assert_eq!(b.next(), None, "it reads still");
    b.set_reading(false);
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress]);
    assert!(a.is_over() && b.is_over());
}

#[test]
fn completions_do_not_wait_for_a_user_who_waits_for_them() {
    let [mut a, mut b] = pair(4);
    // The data of b are not read by a's user, so that b has its last credits.
    while b.may_write() {
        write(&mut b, &mut a, b"x");
    }
    for _ in 0..20 {
        let offered = a.offer(slice(1));
        deliver(offered, &mut b);
        b.source_read();
        assert_eq!(exchange(&mut b, &mut a).len(), 1, "the completion");
        exchange(&mut a, &mut b);
        exchange(&mut b, &mut a);
        assert_eq!(a.positions().0, a.positions().1);
    }
}

fn range(len: u32) -> RemoteSlice {
    RemoteSlice { addr: 64, len, rkey: 1 }
}

/// One end offers so many bytes, and the other one gets that.
fn offer(from: &mut Endpoint, to: &mut Endpoint, len: u32) {
    assert!(from.may_offer());
    let offered = message(from.offer(range(len)));
    assert_eq!(to.on_message(&offered), Ok(Event::Source(range(len))));
}

#[test]
fn offers_that_were_not_read_come_back_by_the_answer_and_the_stream_goes_on_from_there() {
    for read in [0, 6] {
        let [mut a, mut b] = pair(8);
        offer(&mut a, &mut b, 20);
        offer(&mut a, &mut b, 30);
        assert!(a.recall_offers());
        assert_eq!(exchange(&mut a, &mut b), [Event::Recalled]);
        assert!(!a.may_write() && !a.may_offer(), "nothing is sent of the stream meanwhile");
        // A read that is under way ends first.
        b.set_reading(true);
        assert!(!b.may_return_sources() && !b.may_want());
        b.set_reading(false);
        assert!(b.may_return_sources());
        b.return_sources(20 - read);
        // What tells of the old position was sent before the answer came.
        let old = a.header();
        assert_eq!(b.on_message(&Message::Data { header: old, bytes: &[] }), Ok(Event::Progress));
        assert_eq!(b.on_message(&Message::Data { header: old, bytes: b"x" }), Err(Violation));
        let answers = exchange(&mut b, &mut a);
        assert_eq!(answers.last(), Some(&Event::Returned));
        assert_eq!(a.positions(), (read.into(), read.into()));
        write(&mut a, &mut b, b"again");
        offer(&mut a, &mut b, 5);
    }
}

#[test]
fn a_recall_of_what_was_read_meanwhile_changes_nothing() {
    let [mut a, mut b] = pair(8);
    offer(&mut a, &mut b, 20);
    assert!(a.recall_offers());
    b.source_read();
    let read = message(b.next().expect("it tells"));
    assert_eq!(exchange(&mut a, &mut b), [Event::Recalled]);
    assert_eq!(a.on_message(&read), Ok(Event::Progress));
    assert!(b.may_return_sources());
    b.return_sources(0);
    assert_eq!(exchange(&mut b, &mut a), [Event::Returned]);
    assert_eq!(a.positions(), (20, 20));
}

#[test]
fn what_is_wanted_comes_back_after_the_write_that_is_under_way() {
    let [mut a, mut b] = pair(8);
    for _ in 0..2 {
        assert!(a.may_want());
        let wanted = message(a.want(range(20)));
        assert_eq!(b.on_message(&wanted), Ok(Event::Sink));
    }
    assert_eq!(b.sink(), Some(range(20)));
    b.begin_write();
    a.recall_wants();
    assert_eq!(exchange(&mut a, &mut b), [Event::Progress]);
    assert!(!a.may_want());
    assert_eq!(exchange(&mut b, &mut a), [], "the write may still be executed");
    b.end_write(20);
    assert_eq!(exchange(&mut b, &mut a), [Event::Written(20), Event::Progress]);
    assert_eq!((a.wanted(), b.sink()), (0, None));
    assert!(a.may_want());
}

#[test]
fn answers_to_what_nobody_asked_and_second_cancels_are_violations() {
    let [mut a, mut b] = pair(8);
    let header = b.header();
    for stray in [Message::SendSm { header }, Message::SinkCancelAck { header }] {
        assert_eq!(a.clone().on_message(&stray), Err(Violation));
    }
    offer(&mut a, &mut b, 20);
    for twice in [|header| Message::SrcAvailCancel { header }, |header| Message::SinkAvailCancel { header }] {
        let (mut a, mut b) = (a.clone(), b.clone());
        assert!(b.on_message(&twice(a.header())).is_ok());
        assert_eq!(b.on_message(&twice(a.header())), Err(Violation));
    }
}

#[test]
fn ranges_that_any_message_tells_as_read_are_not_told_again_and_an_end_with_unread_ones_is_not_over() {
    let [mut a, mut b] = pair(8);
    for _ in 0..2 {
        offer(&mut a, &mut b, 20);
        b.source_read();
    }
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress], "one message for both");
    offer(&mut a, &mut b, 20);
    a.shutdown();
    b.shutdown();
    assert_eq!(exchange(&mut a, &mut b), [Event::End]);
    assert_eq!(exchange(&mut b, &mut a), [Event::End]);
    exchange(&mut a, &mut b);
    assert!(!b.is_over(), "a range is to be read");
    b.source_read();
    assert_eq!(exchange(&mut b, &mut a), [Event::Progress]);
    assert!(a.is_over() && b.is_over());
}

#[test]
fn a_mode_says_what_may_begin_and_what_crossed_it_counts() {
    let [mut a, mut b] = pair(8);
    offer(&mut a, &mut b, 20);
    b.set_mode(Mode::Buffered);
    let told = message(b.next().expect("it is told"));
    // It was sent before the mode was known.
    offer(&mut a, &mut b, 30);
    assert_eq!(a.on_message(&told), Ok(Event::Progress));
    assert!(!a.may_offer() && !a.takes_adverts() && !b.may_want());
    b.source_read();
    b.source_read();
    exchange(&mut b, &mut a);
    write(&mut a, &mut b, b"data");
    b.set_mode(Mode::Combined);
    exchange(&mut b, &mut a);
    offer(&mut a, &mut b, 20);
    assert!(!a.may_offer() && a.takes_adverts() && !b.may_want(), "one at a time");
    b.source_read();
    b.set_mode(Mode::Pipelined);
    assert!(!b.may_want(), "the peer is to know first");
    exchange(&mut b, &mut a);
    assert!(b.may_want());
    offer(&mut a, &mut b, 20);
    assert!(a.may_offer());
}

#[test]
fn every_message_fits_buffers_that_become_smaller_and_larger() {
    let [mut a, mut b] = pair(8).map(|end| end.taking(15));
    write(&mut a, &mut b, b"ten bytes.");
    assert!(a.resize(4) && !a.resize(5), "one question at a time");
    assert_eq!((exchange(&mut a, &mut b), a.payload()), (vec![Event::Progress], 4));
    let header = a.clone().data(5);
    assert_eq!(b.clone().on_message(&Message::Data { header, bytes: b"fifth" }), Err(Violation));
    write(&mut a, &mut b, b"four");
    assert_eq!(a.resized(), None);
    exchange(&mut b, &mut a);
    assert_eq!(a.resized(), Some(4));
    assert!(a.resize(99));
    exchange(&mut a, &mut b);
    assert_eq!(a.payload(), 4, "not before the answer");
    exchange(&mut b, &mut a);
    assert_eq!((a.resized(), a.payload()), (Some(15), 15), "as much as it can take");
    let header = a.header();
    let stray = Message::ChRcvBufAck { header, bytes: 9 };
    assert_eq!(b.on_message(&stray), Err(Violation));
}

#[test]
fn a_question_for_other_buffers_keeps_no_stream_that_both_ends_have_closed() {
    let [mut a, mut b] = pair(8);
    b.shutdown();
    exchange(&mut b, &mut a);
    assert!(a.resize(4));
    a.shutdown();
    assert_eq!(exchange(&mut a, &mut b), [Event::Progress, Event::End]);
    assert!(!a.is_over() && !b.is_over());
    exchange(&mut b, &mut a);
    assert!(a.is_over() && b.is_over());
}

/// The other end's user reads nothing of what was written, so that few credits are left; and that end, having heard the end,
/// returns credits for control all the same.
#[test]
fn an_end_that_writes_no_more_can_tell_of_all_that_it_reads() {
    let [mut a, mut b] = pair(4);
    write(&mut a, &mut b, b"x");
    write(&mut a, &mut b, b"y");
    a.shutdown();
    exchange(&mut a, &mut b);
    exchange(&mut b, &mut a);
    for _ in 0..5 {
        offer(&mut b, &mut a, 20);
        offer(&mut b, &mut a, 20);
        for _ in 0..2 {
            a.source_read();
            exchange(&mut a, &mut b);
            exchange(&mut b, &mut a);
        }
        assert_eq!(b.positions().0, b.positions().1, "all was read, and that is known");
    }
}

#[test]
fn an_end_that_is_told_of_a_changed_address_says_so_too_though_it_saw_none() {
    let [mut a, mut b] = pair(8);
    write(&mut a, &mut b, b"abc");
    b.consumed();
    a.fail(Failure::AddressChanged { acknowledged: 0 }, true);
    assert_eq!(exchange(&mut a, &mut b), [Event::Aborted]);
    assert_eq!(b.failure(), Some(Failure::AddressChanged { acknowledged: 0 }));
    exchange(&mut b, &mut a);
    assert!(a.is_over() && b.is_over());
}

/// The end that was asked keeps a stream that nobody uses, unless it is told.
#[test]
fn who_gives_up_a_stream_since_the_other_end_is_unfit_tells_it() {
    for (buffers, buffer_bytes) in [(0, 10), (LEAST_BUFFERS - 1, 10), (8, 0)] {
        let mut asking = Endpoint::asking(greeting(1, 8));
        assert_eq!(asking.next(), Some(Outgoing::Hello(greeting(1, 8))));
        let theirs = Greeting { buffer_bytes, ..greeting(2, buffers) };
        let ack = Message::HelloAck { to: greeting(1, 8).from, greeting: theirs };
        assert_eq!(asking.on_message(&ack), Err(Violation));
        asking.fail(Failure::Aborted, true);
        assert_eq!(asking.next(), Some(Outgoing::AbortConn { to: theirs.from, moved: false }));
        assert!(asking.is_over());
    }
}

/// A place in the stream for more than is sent would be bytes that are lost without a word.
#[test]
fn a_message_takes_no_more_than_is_carried_here_whatever_the_other_end_says_of_its_buffers() {
    let theirs = Greeting { buffer_bytes: u32::MAX, ..greeting(2, 8) };
    assert_eq!(Endpoint::accepting(greeting(1, 8), theirs).taking(20).payload(), 20);
}

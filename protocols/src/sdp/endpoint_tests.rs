use super::*;
use crate::sdp::Refusal;

fn greeting(place: u32, buffers: u32) -> Greeting {
    Greeting { from: Handle { place, use_of: 0 }, buffers, buffer_bytes: 10 }
}

fn message(outgoing: Outgoing) -> Message<'static> {
    match outgoing {
        Outgoing::Hello(greeting) => Message::Hello { id: 0, port: 0, from_port: 0, greeting },
        Outgoing::HelloAck { to, greeting } => Message::HelloAck { to, greeting },
        Outgoing::Credits(header) => Message::Data { header, bytes: &[] },
        Outgoing::DisConn(header) => Message::DisConn { header },
        Outgoing::AbortConn { to } => Message::AbortConn { to },
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
fn what_contradicts_the_state_is_a_violation() {
    let [mut a, b] = pair(4);
    let header = a.data(2);
    let data = |header, bytes| Message::Data { header, bytes };
    let refused = |message| {
        let mut end = b;
        assert_eq!(end.on_message(&message), Err(Violation), "{message:?}");
    };
    refused(data(Header { at: 1, ..header }, b"ab"));
    refused(data(Header { acked: 1, ..header }, b"ab"));
    refused(data(Header { grant: header.grant + 1, ..header }, b"ab"));
    refused(data(header, b"more than a buffer"));
    refused(Message::HelloAck { to: header.to, greeting: greeting(1, 4) });
    refused(Message::Reject { to: header.to, why: Refusal::NoListener });
    let mut ended = b;
    assert_eq!(ended.on_message(&Message::DisConn { header }), Ok(Event::End));
    let after = Header { at: 1, ..header };
    assert_eq!(ended.on_message(&data(after, b"a")), Err(Violation));
    assert_eq!(ended.on_message(&Message::DisConn { header: after }), Err(Violation));
    let mut flooded = b;
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
    assert_eq!((a.is_over(), b.is_over(), b.failure()), (true, true, Some(Failure::Reset)));
    assert_eq!((a.next(), b.next()), (None, None));
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

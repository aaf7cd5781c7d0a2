//! What the fabric's event log says, as people read it in a diagram: packets, completions, time-outs, faults.
//!
//! Of the connection managers' messages the log tells the sending only. What became of them is seen by who is under way
//! before and after each event.

use crate::explore::TraceEvent;
use crate::named::{Executed, Naming};
use weft_sim::NodeId;
use weft_sim::choice::EventId;
use weft_sim::explore::{Outcome, Underway};

/// Reads the event log of a fabric as it grows.
#[derive(Debug, Default)]
pub struct EventLog {
    /// How many packets have been sent.
    sent: u64,
    /// Those that are under way: number, receiver, and what the receiver's line will say.
    under_way: Vec<(u64, u32, String)>,
    /// The connection managers' messages that are under way: number, and the event that would be their arrival.
    messages: Vec<(u64, EventId)>,
    /// What has happened since the last reading.
    taken: Option<EventId>,
    /// What atomics found whose answers were not sent yet, each with its responder's number of it.
    found: Vec<(u32, String, String)>,
    /// The same of those whose answers are under way, by packet.
    answers: Vec<(u64, String)>,
    /// What the answers brought that have just arrived, with their receivers.
    brought: Vec<(u32, String)>,
}

impl EventLog {
    /// An event has happened, in some way.
    pub fn take(&mut self, event: EventId, outcome: Outcome) {
        self.taken = Some(event).filter(|_| !outcome.is_fault());
    }

    /// Tells the next lines of the log. `underway` are the connection managers' messages that have not arrived by now.
    /// `named` says what is at a node's address.
    pub fn read(
        &mut self,
        log: &[u8],
        underway: &[Underway],
        named: Naming<'_>,
        trace: &mut Vec<TraceEvent>,
    ) {
        trace.extend(self.taken.take().and_then(|event| self.message(event)));
        let known = |message: &Underway| self.messages.iter().any(|(_, event)| *event == message.event);
        let mut new: Vec<Underway> = underway.iter().copied().filter(|message| !known(message)).collect();
        for line in String::from_utf8_lossy(log).lines() {
            self.line(line, &mut new, named, trace);
        }
        let lost = self.messages.extract_if(.., |(_, event)| !underway.iter().any(|u| u.event == *event));
        trace.extend(lost.map(|(packet, _)| TraceEvent::Lost { packet }));
    }

    /// A message has arrived, if this event is the arrival of one.
    fn message(&mut self, event: EventId) -> Option<TraceEvent> {
        let index = self.messages.iter().position(|(_, arrival)| *arrival == event)?;
        let (packet, _) = self.messages.remove(index);
        Some(TraceEvent::Arrive { packet, text: String::new() })
    }

    /// A manager sends a message: `req to n2`. One that is not among the new ones has found no way.
    fn ask(
        &mut self,
        from: u32,
        details: &str,
        new: &mut Vec<Underway>,
        trace: &mut Vec<TraceEvent>,
    ) -> Option<()> {
        let (name, to) = details.split_once(" to ")?;
        let to = NodeId::from_name(to)?;
        let packet = self.sent;
        self.sent += 1;
        trace.push(TraceEvent::Send { packet, from, to: to.0, text: name.to_uppercase() });
        let index =
            new.iter().position(|message| (message.from.0, message.to, message.name) == (from, to, name));
        match index {
            Some(index) => self.messages.push((packet, new.remove(index).event)),
            None => trace.push(TraceEvent::Lost { packet }),
        }
        Some(())
    }

    /// A line is a time, a node, a kind and details.
    fn line(
        &mut self,
        line: &str,
        new: &mut Vec<Underway>,
        named: Naming<'_>,
        trace: &mut Vec<TraceEvent>,
    ) -> Option<()> {
        let mut words = line.split_whitespace();
        let node = NodeId::from_name(words.nth(1)?)?.0;
        let kind = words.next()?;
        let details = words.collect::<Vec<_>>().join(" ");
        if kind == "cm" {
            return self.ask(node, &details, new, trace);
        }
        trace.push(self.event(node, kind, details, named)?);
        Some(())
    }

    fn event(&mut self, node: u32, kind: &str, details: String, named: Naming<'_>) -> Option<TraceEvent> {
        match kind {
            "tx" => self.send(node, &details),
            "rx" => self.arrive(node, &details, String::new()),
            "drop" => self.lose(&details),
            "ignore" => {
                let (packet, why) = details.split_once(": ")?;
                self.arrive(node, packet, format!("ignored: {why}"))
            }
            "complete" => Some(self.complete(node, &details)),
            "step" => Some(TraceEvent::Step { node }),
            "execute" => Some(self.execute(node, &details, named)),
            "timer" => Some(TraceEvent::Note { node, text: format!("time-out: {details}") }),
            "state" | "async" | "arm" => Some(TraceEvent::Note { node, text: format!("{kind} {details}") }),
            "fault" => Some(TraceEvent::Fault { nodes: vec![node], text: details }),
            _ => None,
        }
    }

    /// `qp1 -> n2/qp3 send psn=4 len=5`
    fn send(&mut self, from: u32, details: &str) -> Option<TraceEvent> {
        let (to, what) = receiver(details)?;
        let packet = self.sent;
        self.sent += 1;
        self.under_way.push((packet, to, what.to_string()));
        let mut text = without_numbers(what);
        if text == ATOMIC_ANSWER
            && let Some(index) = self.found.iter().position(|(node, psn, _)| *node == from && has(what, psn))
        {
            let (_, _, found) = self.found.remove(index);
            text = format!("answer: {found}");
            self.answers.push((packet, found));
        }
        Some(TraceEvent::Send { packet, from, to, text })
    }

    /// `qp3 fetch-add psn=4 at=0x2000 add=0x1 found=0x0`
    fn execute(&mut self, node: u32, details: &str, named: Naming<'_>) -> TraceEvent {
        let Some(executed) = Executed::parse(details) else {
            return TraceEvent::Note { node, text: format!("executes {}", without_numbers(details)) };
        };
        let name = named(node, executed.at);
        if let Some(found) = executed.found(name.as_ref()) {
            self.found.push((node, executed.psn.to_string(), found));
        }
        TraceEvent::Note { node, text: executed.words(name.as_ref()) }
    }

    /// A completion; one of an atomic says what was found.
    fn complete(&mut self, node: u32, details: &str) -> TraceEvent {
        let text = without_numbers(details);
        let index = self.brought.iter().position(|(to, _)| *to == node);
        let is_atomic = text == "CompareSwap" || text == "FetchAdd";
        match index.filter(|_| is_atomic) {
            Some(index) => {
                let (_, found) = self.brought.remove(index);
                TraceEvent::Completion { node, text: format!("{text}: {found}") }
            }
            None => TraceEvent::Completion { node, text },
        }
    }

    /// `qp3 send psn=4 len=5`, or without the length.
    fn arrive(&mut self, at: u32, what: &str, text: String) -> Option<TraceEvent> {
        let index = self.under_way.iter().position(|(_, to, sent)| *to == at && sent.starts_with(what))?;
        let (packet, ..) = self.under_way.remove(index);
        let answers = self.answers.extract_if(.., |(number, _)| *number == packet);
        self.brought.extend(answers.filter(|_| text.is_empty()).map(|(_, found)| (at, found)));
        Some(TraceEvent::Arrive { packet, text })
    }

    fn lose(&mut self, details: &str) -> Option<TraceEvent> {
        let (at, what) = receiver(details)?;
        let index = self.under_way.iter().position(|(_, to, sent)| *to == at && sent == what)?;
        let (packet, ..) = self.under_way.remove(index);
        Some(TraceEvent::Lost { packet })
    }
}

/// The name of an atomic's answer.
const ATOMIC_ANSWER: &str = "atomic-response";

/// Whether a packet's line has a sequence number.
fn has(what: &str, psn: &str) -> bool {
    what.split_whitespace().any(|word| word.strip_prefix("psn=") == Some(psn))
}

/// To whom a packet goes, and what its receiver will say of it.
fn receiver(details: &str) -> Option<(u32, &str)> {
    let (_, to) = details.split_once(" -> ")?;
    let (node, what) = to.split_once('/')?;
    Some((NodeId::from_name(node)?.0, what))
}

/// What was sent or done, without its queue pair and its numbers.
fn without_numbers(what: &str) -> String {
    let words = what.split_whitespace().filter(|word| !word.contains('=') && !word.starts_with("qp"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Named;

    fn nothing(_: u32, _: u64) -> Option<Named> {
        None
    }

    /// Of two swaps of one word a reader sees which one succeeded: where it is executed, on the way back, and when its node is
    /// told.
    #[test]
    fn the_value_that_an_atomic_found_is_followed_to_the_node_that_asked() {
        let log = b"0 n0 tx qp1 -> n2/qp3 compare-swap psn=4 len=0\n0 n1 tx qp1 -> n2/qp4 compare-swap psn=4 len=0\n\
                    0 n2 rx qp3 compare-swap psn=4 len=0\n\
                    0 n2 execute qp3 compare-swap psn=4 at=0x40 compare=0x0 swap=0x1 found=0x0\n\
                    0 n2 tx qp3 -> n0/qp1 atomic-response psn=4 len=0\n\
                    0 n2 rx qp4 compare-swap psn=4 len=0\n\
                    0 n2 execute qp4 compare-swap psn=4 at=0x40 compare=0x0 swap=0x2 found=0x1\n\
                    0 n2 tx qp4 -> n1/qp1 atomic-response psn=4 len=0\n\
                    0 n1 rx qp1 atomic-response psn=4 len=0\n0 n1 complete cq=1 qp1 wr=7 CompareSwap len=8\n\
                    0 n0 rx qp1 atomic-response psn=4 len=0\n0 n0 complete cq=1 qp1 wr=7 CompareSwap len=8\n";
        let (mut log_reader, mut trace) = (EventLog::default(), Vec::new());
        let named = |node, at| (node == 2 && at == 0x40).then(|| Named::new("lock 3's word"));
        log_reader.read(log, &[], &named, &mut trace);
        let said: Vec<String> = trace.iter().map(ToString::to_string).collect();
        for line in [
            "n2 swaps lock 3's word: was 0, now 1",
            "n2 swaps nothing: lock 3's word is 1, not 0",
            "n2 sends #3 to n1: answer: found 1, not 0",
            "n1 is told: CompareSwap: found 1, not 0",
            "n0 is told: CompareSwap: found 0, swapped",
        ] {
            assert!(said.iter().any(|said| said == line), "{line}: {said:#?}");
        }
    }

    #[test]
    fn a_packet_is_followed_to_its_end() {
        let log = b"0 n0 tx qp1 -> n2/qp3 fetch-add psn=4 len=8\n0 n0 tx qp1 -> n2/qp3 send psn=5 len=9\n\
                    0 n2 rx qp3 fetch-add psn=4 len=8\n0 n0 drop qp1 -> n2/qp3 send psn=5 len=9\n\
                    0 n0 poll cq=1 n=2\n0 n0 complete cq=1 qp1 wr=7 RetryExc\n";
        let (mut log_reader, mut trace) = (EventLog::default(), Vec::new());
        log_reader.read(log, &[], &nothing, &mut trace);
        let send = |packet, text: &str| TraceEvent::Send { packet, from: 0, to: 2, text: text.into() };
        let told = [
            send(0, "fetch-add"),
            send(1, "send"),
            TraceEvent::Arrive { packet: 0, text: String::new() },
            TraceEvent::Lost { packet: 1 },
            TraceEvent::Completion { node: 0, text: "RetryExc".into() },
        ];
        assert_eq!(trace, told);
    }

    /// Of two messages that look alike each has its own end; one that is lost on the way, and one that finds no way, end
    /// where they did.
    #[test]
    fn a_connection_manager_s_message_is_followed_to_its_end() {
        let (mut log_reader, mut trace) = (EventLog::default(), Vec::new());
        let request = |event| Underway { event: EventId(event), from: NodeId(0), to: NodeId(2), name: "req" };
        let asks = "0 n0 cm req to n2\n";
        log_reader.read(asks.repeat(2).as_bytes(), &[request(8), request(9)], &nothing, &mut trace);
        log_reader.take(EventId(9), Outcome::Done);
        log_reader.read(b"0 n2 cm rep to n0\n", &[request(8)], &nothing, &mut trace);
        log_reader.take(EventId(8), Outcome::Drop);
        log_reader.read(b"0 n0 fault cut\n", &[], &nothing, &mut trace);
        let send = |packet, text: &str| match text {
            "REQ" => TraceEvent::Send { packet, from: 0, to: 2, text: text.into() },
            _ => TraceEvent::Send { packet, from: 2, to: 0, text: text.into() },
        };
        let told = [
            send(0, "REQ"),
            send(1, "REQ"),
            TraceEvent::Arrive { packet: 1, text: String::new() },
            send(2, "REP"),
            TraceEvent::Lost { packet: 2 },
            TraceEvent::Fault { nodes: vec![0], text: "cut".into() },
            TraceEvent::Lost { packet: 0 },
        ];
        assert_eq!(trace, told);
    }
}

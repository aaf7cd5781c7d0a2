//! What the fabric's event log says, as people read it in a diagram: packets, completions, time-outs, faults.

use crate::explore::Tale;
use sim_backend::NodeId;

/// Reads the event log of a fabric as it grows.
#[derive(Debug, Default)]
pub struct Chronicle {
    /// How many packets have been sent.
    sent: u64,
    /// Those that are under way: number, receiver, and what the receiver's line will say.
    under_way: Vec<(u64, u32, String)>,
}

impl Chronicle {
    /// Tells the next lines of the log.
    pub fn read(&mut self, log: &[u8], tales: &mut Vec<Tale>) {
        let text = String::from_utf8_lossy(log);
        tales.extend(text.lines().filter_map(|line| self.line(line)));
    }

    /// A line is a time, a node, a kind and details.
    fn line(&mut self, line: &str) -> Option<Tale> {
        let mut words = line.split_whitespace();
        let node = NodeId::from_name(words.nth(1)?)?.0;
        let kind = words.next()?;
        let details = words.collect::<Vec<_>>().join(" ");
        match kind {
            "tx" => self.send(node, &details),
            "rx" => self.arrive(node, &details, String::new()),
            "drop" => self.lose(&details),
            "ignore" => {
                let (packet, why) = details.split_once(": ")?;
                self.arrive(node, packet, format!("ignored: {why}"))
            }
            "complete" => Some(Tale::Completion { node, text: without_numbers(&details) }),
            "step" => Some(Tale::Note { node, text: "step".to_string() }),
            "execute" => Some(Tale::Note { node, text: format!("executes {}", without_numbers(&details)) }),
            "timer" => Some(Tale::Note { node, text: format!("time-out: {details}") }),
            "state" | "async" | "arm" => Some(Tale::Note { node, text: format!("{kind} {details}") }),
            "fault" => Some(Tale::Fault { nodes: vec![node], text: details }),
            _ => None,
        }
    }

    /// `qp1 -> n2/qp3 send psn=4 len=5`
    fn send(&mut self, from: u32, details: &str) -> Option<Tale> {
        let (to, what) = receiver(details)?;
        let packet = self.sent;
        self.sent += 1;
        self.under_way.push((packet, to, what.to_string()));
        Some(Tale::Send { packet, from, to, text: without_numbers(what) })
    }

    /// `qp3 send psn=4 len=5`, or without the length.
    fn arrive(&mut self, at: u32, what: &str, text: String) -> Option<Tale> {
        let index = self.under_way.iter().position(|(_, to, sent)| *to == at && sent.starts_with(what))?;
        let (packet, ..) = self.under_way.remove(index);
        Some(Tale::Arrive { packet, text })
    }

    fn lose(&mut self, details: &str) -> Option<Tale> {
        let (at, what) = receiver(details)?;
        let index = self.under_way.iter().position(|(_, to, sent)| *to == at && sent == what)?;
        let (packet, ..) = self.under_way.remove(index);
        Some(Tale::Lost { packet })
    }
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

    #[test]
    fn a_packet_is_followed_to_its_end() {
        let log = b"0 n0 tx qp1 -> n2/qp3 fetch-add psn=4 len=8\n0 n0 tx qp1 -> n2/qp3 send psn=5 len=9\n\
                    0 n2 rx qp3 fetch-add psn=4 len=8\n0 n0 drop qp1 -> n2/qp3 send psn=5 len=9\n\
                    0 n0 poll cq=1 n=2\n0 n0 complete cq=1 qp1 wr=7 RetryExc\n";
        let (mut chronicle, mut tales) = (Chronicle::default(), Vec::new());
        chronicle.read(log, &mut tales);
        let send = |packet, text: &str| Tale::Send { packet, from: 0, to: 2, text: text.into() };
        let told = [
            send(0, "fetch-add"),
            send(1, "send"),
            Tale::Arrive { packet: 0, text: String::new() },
            Tale::Lost { packet: 1 },
            Tale::Completion { node: 0, text: "RetryExc".into() },
        ];
        assert_eq!(tales, told);
    }
}

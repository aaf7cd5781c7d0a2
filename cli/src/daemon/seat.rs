//! A daemon's side of its systems: begins them once all nodes have been here, and passes calls, answers and reports on.

use super::engine::{self, Setup};
use super::frame::{Frame, Kind};
use super::machine;
use crate::bridge::End;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::thread;
use tokio::sync::{mpsc, oneshot};
use weft_control::daemon::config::Config;
use weft_control::daemon::systems::{Request, Seat, does_not_run};
use weft_control::member::Members;
use weft_control::message::{Answer, Entry, Failed, Report};

/// Runs the systems of a node.
///
/// # Errors
/// They cannot begin, ended by themselves, or nobody reaches them any more; why, in one line.
pub async fn run(mut seat: Seat, setup: Setup, config: &Config) -> Result<(), String> {
    let members = seat.members.clone();
    let is_there = || members.borrow().coordinator;
    let mut lost = pin!(machine::lost((setup.rank, &setup.on), config, is_there, machine::LOOK));
    let met = tokio::select! {
        biased;
        met = met(&mut seat, &setup, config.cluster.nodes) => met?,
        why = &mut lost => return Err(why),
    };
    let Some(mut addresses) = met else { return Ok(()) };
    let (here, there) = UnixStream::pair().map_err(|why| why.to_string())?;
    let (tell, ended) = oneshot::channel();
    let (runs, first) = (setup.clone(), addresses.clone());
    thread::spawn(move || {
        // Without the daemon nobody hears it.
        let _ = tell.send(engine::run(&runs, &first, there));
    });
    let end = End::new(here).map_err(|why| why.to_string())?;
    let talked = tokio::select! {
        biased;
        talked = talk(&mut seat, &setup, &mut addresses, end) => talked,
        // The systems end as those of a daemon that is gone.
        why = &mut lost => Err(why),
    };
    match ended.await {
        Ok(Ok(())) => talked,
        Ok(Err(why)) => Err(why),
        Err(_) => Err("its systems ended in a panic".to_string()),
    }
}

/// Waits until all nodes have been here: their addresses. One that was started again need not wait for those that have gone. None if the
/// daemon is told to go before.
async fn met(seat: &mut Seat, setup: &Setup, nodes: u32) -> Result<Option<Vec<IpAddr>>, String> {
    let Seat { members, calls, reports, stop, rank } = seat;
    let said = BTreeMap::from([("state".to_string(), "waits for all nodes".to_string())]);
    let waits = setup.runs().map(|(system, _)| (super::not_running(system), said.clone()));
    let waits = Report { view: None, systems: waits.collect() };
    // Without a daemon there is nobody to tell.
    let _ = reports.send(waits).await;
    loop {
        let missing = unknown(&members.borrow_and_update(), nodes);
        if missing.is_empty() {
            return addresses(&members.borrow(), nodes).map(Some);
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
            // Once nothing changes any more, the daemon ends, and says why.
            Ok(()) = members.changed() => {}
            Some(Request { system, answer, .. }) = calls.recv() => {
                let missing = missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                let why = format!("node {rank} begins {system} once all nodes have been here, and these have not: {missing}");
                // Who asked may have gone.
                let _ = answer.send(Answer::Failed(Failed::for_now(why)));
            }
        }
    }
}

/// The nodes of which nobody has told.
fn unknown(members: &Members, nodes: u32) -> Vec<u32> {
    (0..nodes).filter(|rank| !members.entries.contains_key(rank)).collect()
}

/// Where nodes say that their adapters are.
fn addresses(members: &Members, nodes: u32) -> Result<Vec<IpAddr>, String> {
    let address = |rank| {
        let entry = members.entries.get(&rank).ok_or_else(|| format!("nobody knows node {rank}"))?;
        said(entry).ok_or_else(|| format!("node {rank} does not say where its adapter is"))
    };
    (0..nodes).map(address).collect()
}

/// Where a node says that its adapter is.
fn said(entry: &Entry) -> Option<IpAddr> {
    std::str::from_utf8(&entry.blob).ok()?.parse().ok()
}

/// The nodes that have come back at other addresses than those that are known, which are known from then on.
fn moved(members: &Members, known: &mut [IpAddr]) -> Vec<(u32, IpAddr)> {
    let mut moved = Vec::new();
    for (rank, known) in (0..).zip(known) {
        let now = members.entries.get(&rank).and_then(said);
        if let Some(address) = now.filter(|address| address != known) {
            *known = address;
            moved.push((rank, address));
        }
    }
    moved
}

/// Passes frames on, until the systems have ended.
async fn talk(seat: &mut Seat, setup: &Setup, addresses: &mut [IpAddr], mut end: End) -> Result<(), String> {
    let Seat { rank, members, calls, reports, stop } = seat;
    let mut open = BTreeMap::new();
    let (mut next, mut told) = (0_u64, false);
    loop {
        tokio::select! {
            biased;
            message = end.next() => match message {
                Some(message) => obey(reports, &mut open, Frame::of_message(&message)).await,
                // Those who still wait are told by the daemon.
                None => return Ok(()),
            },
            _ = stop.wait_for(|stop| *stop), if !told => {
                told = true;
                end.say(&Frame::of(Kind::Stop, Vec::new()).to_message()).await;
            }
            Ok(()) = members.changed() => {
                let moved = moved(&members.borrow_and_update(), addresses);
                for node in moved {
                    let body = serde_json::to_vec(&node).expect("a node can always be written");
                    end.say(&Frame::of(Kind::Moved, body).to_message()).await;
                }
            }
            Some(Request { system, body, answer }) = calls.recv() => {
                if let Some((_, kind)) = setup.runs().find(|(runs, _)| *runs == system) {
                    next += 1;
                    open.insert(next, answer);
                    end.say(&Frame { kind, call: next, body }.to_message()).await;
                } else {
                    // Who asked may have gone.
                    let _ = answer.send(Answer::Failed(Failed::for_good(does_not_run(*rank, &system))));
                }
            }
        }
    }
}

async fn obey(
    reports: &mpsc::Sender<Report>,
    open: &mut BTreeMap<u64, oneshot::Sender<Answer>>,
    frame: Frame,
) {
    let Frame { kind, call, body } = frame;
    let answer = match kind {
        Kind::Done => Answer::Done(body),
        Kind::Failed => {
            Answer::Failed(serde_json::from_slice(&body).expect("the other end is of this process"))
        }
        Kind::Report => {
            if let Ok(report) = serde_json::from_slice(&body) {
                // Without a daemon there is nobody to tell.
                let _ = reports.send(report).await;
            }
            return;
        }
        Kind::Segments | Kind::Locks | Kind::Files | Kind::Stop | Kind::Moved => return,
    };
    if let Some(tell) = open.remove(&call) {
        // Who asked may have gone.
        let _ = tell.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_control::message::Presence;

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_node_that_has_moved_is_told_of_once() {
        let entry = |rank: u32, blob: &[u8]| {
            let (blob, address, presence) = (blob.to_vec(), at(0), Presence::Present);
            (rank, Entry { rank, incarnation: 1, address, blob, presence })
        };
        let mut known = [at(0), at(1), at(2)];
        let mut members = Members::default();
        members.entries.extend([entry(0, b"10.0.0.0"), entry(1, b"10.0.0.9"), entry(2, b"nowhere")]);
        assert_eq!(moved(&members, &mut known), [(1, at(9))]);
        assert_eq!((moved(&members, &mut known), known), (Vec::new(), [at(0), at(9), at(2)]));
    }
}

//! Calibration profiles: what a machine, its adapter and its network cost.
//!
//! A profile is a TOML file in which every figure stands with its unit and its source; the shipped ones are
//! embedded. [`Profile`] holds the plain numbers, as fields of the groups [`Cpu`], [`Adapter`], [`Link`],
//! [`Switch`] and [`Transport`], and the sources beside them for people ([`Profile::figures`]).
//!
//! # How the figures add up
//!
//! The time of an operation is a sum along its way; [`Profile::one_way_send`] and its companions write the
//! sums down, and the simulated fabric must agree with them when nothing else is going on:
//!
//! | step | figure |
//! |---|---|
//! | the processor builds and posts a request | `cpu.post_ns` |
//! | the adapter fetches it and its first byte reaches the wire | `adapter.tx_ns` |
//! | its payload crosses the host's bus | `adapter.dma_ns_per_kib` |
//! | the packet passes onto the wire, header included | `link.bits_per_second` |
//! | cable, switch, cable; the packet is cut through, not stored | `link.propagation_ns`, `switch.latency_ns` |
//! | the receiving adapter takes it to its effect | `adapter.rx_ns` |
//! | its payload crosses the host's bus | `adapter.dma_ns_per_kib` |
//! | a responder executes an atomic, or fetches what is read | `adapter.compare_swap_ns`, `fetch_add_ns`, `read_ns` |
//! | an answer leaves | `adapter.ack_ns` |
//! | a completion is made and visible | `adapter.completion_ns` |
//! | a polling processor sees it | `cpu.poll_detect_ns`, `cpu.poll_hit_ns` |
//! | a sleeping one is woken, takes the event, and polls | `cpu.interrupt_ns`, `cpu.event_ns`, `cpu.poll_hit_ns` |
//!
//! `adapter.tx_gap_ns` is no latency: it is how long an adapter's send side is busy with a packet, at least.
//! Atomics of one adapter are executed one at a time, each as long as its figure says.

mod error;
mod figure;
mod primitives;

pub use error::ProfileError;
pub use figure::Figure;
pub use primitives::header;

use figure::{Reader, figures};
use std::path::Path;
use weft_verbs::{AckTimeout, Mtu, Retries, RnrTimer};

figures! {
    /// What a node's processor spends.
    Cpu in "cpu" {
        /// Posting one list of work requests: building the first and ringing the doorbell.
        post_ns: "ns" in 0..=SECOND,
        /// Each further request of a posted list.
        post_more_ns: "ns" in 0..=SECOND,
        /// Polling a completion queue that is empty.
        poll_empty_ns: "ns" in 0..=SECOND,
        /// Polling a completion queue and taking completions from it.
        poll_hit_ns: "ns" in 0..=SECOND,
        /// From a completion's visibility until a spinning processor looks at it.
        poll_detect_ns: "ns" in 0..=SECOND,
        /// Arming a completion queue.
        arm_ns: "ns" in 0..=SECOND,
        /// Taking and acknowledging the event of a completion channel.
        event_ns: "ns" in 0..=SECOND,
        /// From an event's raising until the sleeping process runs: interrupt, handler, scheduler.
        interrupt_ns: "ns" in 0..=SECOND,
        /// Handing a message to another process of the machine.
        ipc_send_ns: "ns" in 0..=SECOND,
        /// The rest of that message's way, until the other process has it.
        ipc_receive_ns: "ns" in 0..=SECOND,
        /// A daemon's handling of one request, when it polls.
        bookkeeping_poll_ns: "ns" in 0..=SECOND,
        /// A daemon's handling of one request, when it sleeps and is woken.
        bookkeeping_notify_ns: "ns" in 0..=SECOND,
        /// Copying memory.
        copy_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// What the operating system does for what is read from or written to a byte stream: protocol and copy.
        stream_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// Entering and leaving the operating system.
        syscall_ns: "ns" in 0..=SECOND,
        /// A page fault, from the access to its handler in the program.
        page_fault_ns: "ns" in 0..=SECOND,
        /// Changing the protection of one page.
        protect_page_ns: "ns" in 0..=SECOND,
        /// Registering memory, whatever its size.
        register_ns: "ns" in 0..=SECOND,
        /// Registering memory, each page.
        register_page_ns: "ns" in 0..=SECOND,
        /// Making a queue pair or a completion queue.
        create_ns: "ns" in 0..=SECOND,
        /// One change of a queue pair's state.
        modify_qp_ns: "ns" in 0..=SECOND,
        /// Handling one message of the connection manager.
        cm_ns: "ns" in 0..=SECOND,
    }
}

figures! {
    /// What an adapter takes, and how much of anything it has.
    Adapter in "adapter" {
        /// From the doorbell until the message's first packet is at the wire, its payload's transfer aside.
        tx_ns: "ns" in 0..=SECOND,
        /// How long the send side is busy with one packet, at least: the reciprocal of the packet rate.
        tx_gap_ns: "ns" in 0..=SECOND,
        /// From a packet's arrival until its effect, its payload's transfer aside.
        rx_ns: "ns" in 0..=SECOND,
        /// How long the receive side is busy with one packet, at least.
        rx_gap_ns: "ns" in 0..=SECOND,
        /// Executing a compare-and-swap.
        compare_swap_ns: "ns" in 0..=SECOND,
        /// Executing a fetch-and-add.
        fetch_add_ns: "ns" in 0..=SECOND,
        /// Fetching the first of what a read asks for.
        read_ns: "ns" in 0..=SECOND,
        /// Payload between adapter and memory.
        dma_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// From the execution of a request until its answer is at the wire.
        ack_ns: "ns" in 0..=SECOND,
        /// Making a completion and writing it to memory.
        completion_ns: "ns" in 0..=SECOND,
        /// Most queue pairs. A simulated adapter has at most 16,380.
        max_qp: "count" in 1..=0xff_ffff,
        /// Most outstanding requests on one work queue.
        max_qp_wr: "count" in 1..=1_048_576,
        /// Most entries of a gather or scatter list.
        max_sge: "count" in 1..=1_024,
        /// Most bytes of inline data. A simulated adapter takes 1,024 at most.
        max_inline: "byte" in 0..=4_096,
        /// Most completion queues.
        max_cq: "count" in 1..=0xff_ffff,
        /// Most completions in one queue.
        max_cqe: "count" in 1..=0x7fff_ffff,
        /// Most memory regions. A simulated adapter has at most 4,194,304.
        max_mr: "count" in 1..=0x7fff_ffff,
        /// Largest memory region.
        max_mr_size: "byte" in 1..=I64_MAX,
        /// Most shared receive queues.
        max_srq: "count" in 0..=0xff_ffff,
        /// Most reads and atomics that a queue pair has in flight, and serves at a time.
        max_rd_atomic: "count" in 1..=255,
    }
}

figures! {
    /// A cable.
    Link in "link" {
        /// Data rate, after line coding.
        bits_per_second: "bit/s" in 1_000_000..=10_000_000_000_000,
        /// From one end to the other.
        propagation_ns: "ns" in 0..=SECOND,
    }
}

figures! {
    /// A switch.
    Switch in "switch" {
        /// From a packet's first bit in to its first bit out.
        latency_ns: "ns" in 0..=SECOND,
    }
}

figures! {
    /// What connections use unless they are told otherwise.
    Transport in "transport" {
        /// Largest payload of a packet.
        mtu: "byte" in 256..=4_096,
        /// Time-out of acknowledgements, as the exponent of 4.096 us x 2^n.
        ack_timeout: "exponent" in 0..=31,
        /// Retries after a time-out.
        retry: "count" in 0..=7,
        /// Retries after receiver-not-ready; 7 is for ever.
        rnr_retry: "count" in 0..=7,
        /// How long a peer is to wait that found no receive buffer, as the code of IBA table 45.
        min_rnr_timer: "code" in 0..=31,
        /// How long the connection manager waits for an answer, as the exponent of 4.096 us x 2^n.
        cm_timeout: "exponent" in 1..=31,
        /// How often it repeats a message that was not answered.
        cm_retries: "count" in 0..=15,
    }
}

figures! {
    /// A machine's disk; what a call costs is in `disk/mod.rs`. A profile need not have it: then its machines have no disk.
    Disk in "disk" {
        /// An access to the medium, before its first byte.
        access_ns: "ns" in 0..=SECOND,
        /// What the medium reads or writes.
        bytes_per_second: "byte/s" in 1_000..=1_000_000_000_000,
        /// Making durable what the medium has: the end of the last write, the drive's flush, the answer.
        sync_ns: "ns" in 0..=SECOND,
        /// Calls that it works at, at a time.
        depth: "count" in 1..=65_536,
        /// What is written and not on the medium yet, at most; objects that fit into it are read from it.
        cache_bytes: "byte" in 0..=I64_MAX,
        /// Between the cache and memory, while the processor does something else.
        cache_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// What the caller's processor does for what is read from the cache.
        read_cpu_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// What it does for what is written to the cache.
        write_cpu_ns_per_kib: "ns/KiB" in 0..=SECOND,
        /// How much it holds.
        capacity_bytes: "byte" in 0..=I64_MAX,
    }
}

/// The groups, as tables of the file.
const GROUPS: [&str; 6] =
    [Cpu::GROUP, Adapter::GROUP, Link::GROUP, Switch::GROUP, Transport::GROUP, Disk::GROUP];

const SECOND: u64 = 1_000_000_000;
const I64_MAX: u64 = i64::MAX as u64;

/// A machine with its adapter and network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What machine it is, in a sentence or two.
    pub about: String,
    /// The processor.
    pub cpu: Cpu,
    /// The adapter.
    pub adapter: Adapter,
    /// The cables.
    pub link: Link,
    /// The switch.
    pub switch: Switch,
    /// Defaults of connections.
    pub transport: Transport,
    /// The disk, if machines have one.
    pub disk: Option<Disk>,
    figures: Vec<Figure>,
}

const BUILTIN: [(&str, &str); 6] = [
    ("ddss-2006", include_str!("../../profiles/ddss-2006.toml")),
    ("dsm-2005", include_str!("../../profiles/dsm-2005.toml")),
    ("elan4-2005", include_str!("../../profiles/elan4-2005.toml")),
    ("ncosed-2007", include_str!("../../profiles/ncosed-2007.toml")),
    ("present-day", include_str!("../../profiles/present-day.toml")),
    ("sdp-2011", include_str!("../../profiles/sdp-2011.toml")),
];

impl Profile {
    /// The names of the profiles that the program brings.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A profile that the program brings.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        let text = BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let text = text.ok_or_else(|| ProfileError::NoSuchProfile {
            name: name.to_string(),
            known: Profile::names().collect::<Vec<_>>().join(", "),
        })?;
        Profile::parse(text)
    }

    /// A profile by the name that a user gives: that of a file if it ends in `.toml`, otherwise of one that the program brings.
    pub fn find(name: &str) -> Result<Profile, ProfileError> {
        if Profile::is_file(name) { Profile::load(Path::new(name)) } else { Profile::builtin(name) }
    }

    /// Whether a name is that of a file.
    pub fn is_file(name: &str) -> bool {
        name.ends_with(".toml")
    }

    /// The profile as a file has it: what [`Profile::parse`] reads.
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut text = format!("name = {}\nabout = {}\n", quoted(&self.name), quoted(&self.about));
        let mut last = "";
        for figure in &self.figures {
            let (group, field) = figure.name.split_once('.').expect("figures are named group.field");
            if group != last {
                text.push_str(&format!("\n[{group}]\n"));
                last = group;
            }
            let fitted = if figure.fitted { ", fitted = true" } else { "" };
            text.push_str(&format!(
                "{field} = {{ value = {}, unit = {}, source = {}{fitted} }}\n",
                figure.value,
                quoted(figure.unit),
                quoted(&figure.source)
            ));
        }
        text
    }

    /// A profile from a file.
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::Unreadable { path: shown.clone(), error: error.to_string() })?;
        Profile::parse(&text).map_err(|error| ProfileError::InFile { path: shown, error: Box::new(error) })
    }

    /// A profile from TOML.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let mut reader = Reader::new(text)?;
        let profile = Profile {
            name: reader.text("name")?,
            about: reader.text("about")?,
            cpu: Cpu::read(&mut reader)?,
            adapter: Adapter::read(&mut reader)?,
            link: Link::read(&mut reader)?,
            switch: Switch::read(&mut reader)?,
            transport: Transport::read(&mut reader)?,
            disk: if reader.has(Disk::GROUP) { Some(Disk::read(&mut reader)?) } else { None },
            figures: reader.finish()?,
        };
        if Mtu::from_bytes(profile.transport.mtu as u32).is_none() {
            return Err(ProfileError::NotAnMtu { value: profile.transport.mtu });
        }
        Ok(profile)
    }

    /// Every figure with its name, value, unit and source, in the order of the groups above.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// Says of every figure that it was not found out but assumed, and why.
    pub fn assume(&mut self, source: &str) {
        for figure in &mut self.figures {
            figure.source = source.to_string();
            figure.fitted = false;
        }
    }

    /// Changes one figure, by its full name (`cpu.post_ns`). The source says who changed it.
    pub fn set(&mut self, name: &str, value: i64, source: &str) -> Result<(), ProfileError> {
        let at = self.figures.iter().position(|figure| figure.name == name);
        let at = at.ok_or_else(|| ProfileError::UnknownField { name: name.to_string() })?;
        let changed = self.figures[at].changed(value, source)?;
        if name == "transport.mtu" && Mtu::from_bytes(changed.value as u32).is_none() {
            return Err(ProfileError::NotAnMtu { value: changed.value });
        }
        let (group, field) = name.split_once('.').expect("figures are named group.field");
        match group {
            Cpu::GROUP => self.cpu.set(field, changed.value),
            Adapter::GROUP => self.adapter.set(field, changed.value),
            Link::GROUP => self.link.set(field, changed.value),
            Switch::GROUP => self.switch.set(field, changed.value),
            Disk::GROUP => self.disk.iter_mut().for_each(|disk| disk.set(field, changed.value)),
            _ => self.transport.set(field, changed.value),
        }
        self.figures[at] = changed;
        Ok(())
    }
}

impl Transport {
    /// The largest packet.
    pub fn mtu(&self) -> Mtu {
        Mtu::from_bytes(self.mtu as u32).expect("checked when it was read")
    }

    /// The time-out of acknowledgements.
    pub fn ack_timeout(&self) -> AckTimeout {
        AckTimeout::new(self.ack_timeout as u8).expect("checked when it was read")
    }

    /// Retries after a time-out.
    pub fn retry(&self) -> Retries {
        Retries::new(self.retry as u8).expect("checked when it was read")
    }

    /// Retries after receiver-not-ready.
    pub fn rnr_retry(&self) -> Retries {
        Retries::new(self.rnr_retry as u8).expect("checked when it was read")
    }

    /// How long the connection manager waits for an answer.
    pub fn cm_timeout(&self) -> AckTimeout {
        AckTimeout::new(self.cm_timeout as u8).expect("checked when it was read")
    }

    /// How long a peer is to wait that found no receive buffer.
    pub fn min_rnr_timer(&self) -> RnrTimer {
        RnrTimer::new(self.min_rnr_timer as u8).expect("checked when it was read")
    }
}

#[cfg(test)]
mod tests;

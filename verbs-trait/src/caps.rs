//! What a backend or a device can do.

use std::fmt;

bitflags::bitflags! {
    /// What a device offers beyond reliable connections, sends, writes and reads.
    ///
    /// A call that needs a missing one answers [`VerbsError::Unsupported`](crate::VerbsError::Unsupported);
    /// the conformance suite lists it instead of skipping a test in silence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Caps: u32 {
        /// Compare-and-swap and fetch-and-add on remote memory.
        const ATOMICS = 1 << 0;
        /// Unreliable datagrams.
        const UD = 1 << 1;
        /// Shared receive queues, with their limit event.
        const SRQ = 1 << 2;
        /// Alternate paths and automatic path migration. No RoCE device has it, whatever it advertises.
        const APM = 1 << 3;
        /// Registering memory that the application brings.
        const BROUGHT_MEMORY = 1 << 4;
        /// Changing a completion queue's size while it is in use.
        const CQ_RESIZE = 1 << 5;
        /// Completion events for solicited completions only.
        const SOLICITED = 1 << 6;
        /// The send queue's drained state (SQD) and its event.
        const SQD = 1 << 7;
        /// Out-of-band byte streams between the nodes' machines.
        const OUT_OF_BAND = 1 << 8;
        /// A device with more than one port.
        const MULTI_PORT = 1 << 9;
        /// Asynchronous events about a queue pair's failure and its first message. Software devices lack them.
        const QP_EVENTS = 1 << 10;
        /// A disk of the machine, with named objects.
        const DISK = 1 << 11;
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, _) in self.iter_names() {
            if !first {
                f.write_str(", ")?;
            }
            f.write_str(&name.to_lowercase().replace('_', " "))?;
            first = false;
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

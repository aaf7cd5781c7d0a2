//! What a profile says that single operations take on an idle fabric: the sums of its figures.
//!
//! The paper's primitive latencies are compared with these sums, and the fabric with both.

use super::Profile;
use weft_verbs::{Nanos, Wait};

/// Bytes of a packet beside its payload, on one subnet (IBA 5.2).
pub mod header {
    /// Local route header, base transport header, invariant and variant checks.
    pub const BASE: u64 = 8 + 12 + 4 + 2;
    /// Acknowledgement header.
    pub const AETH: u64 = 4;
    /// Remote address, key and length: writes and read requests.
    pub const RETH: u64 = 16;
    /// Remote address, key and two operands.
    pub const ATOMIC: u64 = 28;
    /// An atomic's old value.
    pub const ATOMIC_ACK: u64 = 8;
    /// Immediate data.
    pub const IMMEDIATE: u64 = 4;
    /// Queue key and source, of datagrams.
    pub const DETH: u64 = 8;
}

impl Profile {
    /// How long so many bytes take to pass onto a cable.
    #[inline]
    pub fn serialization(&self, bytes: u64) -> Nanos {
        // In 128 bits, since bits times nanoseconds overflows 64 at 2 GiB.
        Nanos((u128::from(bytes) * 8_000_000_000 / u128::from(self.link.bits_per_second)) as u64)
    }

    /// How long so many bytes take between adapter and memory.
    #[inline]
    pub fn dma(&self, bytes: u64) -> Nanos {
        Nanos(bytes.saturating_mul(self.adapter.dma_ns_per_kib) / 1024)
    }

    /// How long the processor takes to copy so many bytes.
    #[inline]
    pub fn copy(&self, bytes: u64) -> Nanos {
        Nanos(bytes.saturating_mul(self.cpu.copy_ns_per_kib) / 1024)
    }

    /// How long the processor is busy with so many bytes of a byte stream.
    #[inline]
    pub fn stream(&self, bytes: u64) -> Nanos {
        Nanos(bytes.saturating_mul(self.cpu.stream_ns_per_kib) / 1024)
    }

    /// Cable, switch, cable, and the packet's own length once.
    pub fn wire(&self, packet_bytes: u64) -> Nanos {
        self.serialization(packet_bytes) + Nanos(2 * self.link.propagation_ns + self.switch.latency_ns)
    }

    /// From a completion until the program has it.
    pub fn learn(&self, wait: Wait) -> Nanos {
        let notice = match wait {
            Wait::Poll => self.cpu.poll_detect_ns,
            Wait::Notify => self.cpu.interrupt_ns + self.cpu.event_ns,
        };
        Nanos(self.adapter.completion_ns + notice + self.cpu.poll_hit_ns)
    }

    /// A message of one packet, from the sender's call until the receiver has its completion.
    pub fn one_way_send(&self, bytes: u64, wait: Wait) -> Nanos {
        self.request(bytes, header::BASE + bytes) + self.learn(wait)
    }

    /// A compare-and-swap, from the call until its completion is taken.
    pub fn compare_swap(&self, wait: Wait) -> Nanos {
        self.atomic(self.adapter.compare_swap_ns, wait)
    }

    /// A fetch-and-add, from the call until its completion is taken.
    pub fn fetch_add(&self, wait: Wait) -> Nanos {
        self.atomic(self.adapter.fetch_add_ns, wait)
    }

    /// A read of one packet, from the call until its completion is taken.
    pub fn read(&self, bytes: u64, wait: Wait) -> Nanos {
        let fetch = Nanos(self.adapter.read_ns) + self.dma(bytes);
        let answer = self.answer(bytes, header::BASE + header::AETH + bytes);
        self.request(0, header::BASE + header::RETH) + fetch + answer + self.learn(wait)
    }

    /// A message to another process of the machine.
    pub fn ipc(&self) -> Nanos {
        Nanos(self.cpu.ipc_send_ns + self.cpu.ipc_receive_ns)
    }

    fn atomic(&self, execute_ns: u64, wait: Wait) -> Nanos {
        let answer = self.answer(8, header::BASE + header::AETH + header::ATOMIC_ACK);
        self.request(0, header::BASE + header::ATOMIC) + Nanos(execute_ns) + answer + self.learn(wait)
    }

    /// From the call until a one-packet request has taken its effect at the receiver.
    fn request(&self, payload: u64, packet: u64) -> Nanos {
        let dma = self.dma(payload);
        Nanos(self.cpu.post_ns + self.adapter.tx_ns + self.adapter.rx_ns) + dma + self.wire(packet) + dma
    }

    /// From the execution of a request until its answer is in the requester's memory.
    fn answer(&self, payload: u64, packet: u64) -> Nanos {
        Nanos(self.adapter.ack_ns + self.adapter.rx_ns) + self.wire(packet) + self.dma(payload)
    }
}

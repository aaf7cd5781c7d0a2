//! Measuring a stream: so many transfers there and as many back, again and again. `weft perf` does it on devices.
//!
//! The span is that of `rstream` of rdmacm-utils, so that the two can be laid side by side. One transfer a round is a ping-pong;
//! many are a bulk transfer each way in turn.
//!
//! | who | bytes |
//! |---|---|
//! | caller | magic (8), bytes of a transfer (4), transfers (4), rounds (4), then the transfers of its first round |
//! | listener | as many back, and so on for each round |
//!
//! The caller may then begin another measurement on the same stream, or end it.

use super::{SdpError, SdpStream};
use crate::rt::Rt;
use thiserror::Error;
use weft_verbs::{Nanos, Verbs};

const MAGIC: [u8; 8] = *b"weft-pf1";
const HEADER: usize = 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of a transfer, which is one call of write: 1 to [`Plan::MOST_BYTES`].
    pub bytes: u32,
    /// Transfers that go one way before as many come back: 1 to [`Plan::MOST`].
    pub transfers: u32,
    /// How many times: 1 to [`Plan::MOST`].
    pub rounds: u32,
}

impl Plan {
    /// The most bytes of a transfer.
    pub const MOST_BYTES: u32 = 16 << 20;
    /// The most transfers of a round, and rounds.
    pub const MOST: u32 = 1_000_000;

    fn check(self) -> Result<Plan, PerfError> {
        let fields = [
            ("bytes", self.bytes, Plan::MOST_BYTES),
            ("transfers", self.transfers, Plan::MOST),
            ("rounds", self.rounds, Plan::MOST),
        ];
        match fields.into_iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            Some((field, value, most)) => Err(PerfError::Plan { field, value, most }),
            None => Ok(self),
        }
    }

    fn to_bytes(self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        for (at, field) in [(8, self.bytes), (12, self.transfers), (16, self.rounds)] {
            header[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        header
    }

    fn from_bytes(header: &[u8; HEADER]) -> Result<Plan, PerfError> {
        let Some((magic, fields)) = header.split_first_chunk() else { return Err(PerfError::Stranger) };
        if *magic != MAGIC {
            return Err(PerfError::Stranger);
        }
        let mut fields =
            fields.chunks_exact(4).map(|part| part.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)));
        let mut field = || fields.next().unwrap_or_default();
        Plan { bytes: field(), transfers: field(), rounds: field() }.check()
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Transfers, both ways together.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first call of write to the last byte of the last answer.
    pub took: Nanos,
    /// The longest call of read or write: the stall, where a link failed.
    pub longest: Nanos,
}

/// Why nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PerfError {
    /// The stream failed.
    #[error("the stream: {0}")]
    Stream(#[from] SdpError),
    /// The peer does not speak this protocol.
    #[error("the peer does not measure streams")]
    Stranger,
    /// The plan cannot be.
    #[error("{field} is {value}: it must be 1 to {most}")]
    Plan {
        /// Which field.
        field: &'static str,
        /// What it is.
        value: u32,
        /// The most that it may be.
        most: u32,
    },
}

/// Measures, as the caller.
///
/// # Errors
///
/// The plan is out of bounds, or the stream failed.
pub async fn call<V: Verbs>(rt: &Rt<V>, stream: &SdpStream<V>, plan: Plan) -> Result<Figures, PerfError> {
    let Plan { bytes, transfers, rounds } = plan.check()?;
    let mut part = vec![0; bytes as usize];
    stream.write_all(&plan.to_bytes()).await?;
    let (began, mut last, mut longest) = (rt.now(), rt.now(), Nanos::ZERO);
    let mut look = || {
        let now = rt.now();
        longest = longest.max(now - last);
        last = now;
    };
    for _ in 0..rounds {
        for _ in 0..transfers {
            stream.write_all(&part).await?;
            look();
        }
        for _ in 0..transfers {
            stream.read_exact(&mut part).await?;
            look();
        }
    }
    let transfers = 2 * u64::from(transfers) * u64::from(rounds);
    Ok(Figures { transfers, bytes: transfers * u64::from(bytes), took: rt.now() - began, longest })
}

/// Answers a caller until it ends the stream: how much was measured.
///
/// # Errors
///
/// The stream failed or ended amid a measurement, or the caller is a stranger or plans what is out of bounds. (One that fails behind a
/// measurement has ended.)
pub async fn answer<V: Verbs>(stream: &SdpStream<V>) -> Result<u32, PerfError> {
    let mut measured = 0;
    loop {
        let mut header = [0; HEADER];
        let came = match stream.read(&mut header).await {
            // How the two ends part changes nothing of what was measured.
            Ok(0) => return Ok(measured),
            Err(_) if measured > 0 => return Ok(measured),
            came => came?,
        };
        stream.read_exact(&mut header[came..]).await?;
        let plan = Plan::from_bytes(&header)?;
        let mut part = vec![0; plan.bytes as usize];
        for _ in 0..plan.rounds {
            for _ in 0..plan.transfers {
                stream.read_exact(&mut part).await?;
            }
            for _ in 0..plan.transfers {
                stream.write_all(&part).await?;
            }
        }
        measured += 1;
    }
}

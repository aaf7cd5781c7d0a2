//! How long things may take.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The spans of one end. Nodes learn [`Timing::beat`] and [`Timing::silence`] from their coordinator, so that all agree.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// After so long without another message an end says that it is alive.
    pub beat: Duration,
    /// An end of which nothing was heard for so long counts as lost. At least four beats, or one lost segment that TCP
    /// sends again (200 ms at the earliest) costs a node its membership.
    pub silence: Duration,
    /// A new connection must have proved who it is after so long.
    pub handshake: Duration,
    /// The holder of a rank that another node claims has so long to answer.
    pub probe: Duration,
    /// A node has so long to answer a client's call.
    pub call: Duration,
    /// A client's connection that asks nothing is kept for so long; clients use one for half of it.
    pub idle: Duration,
    /// One attempt to connect to an address takes at most so long, and so does the look for the addresses of a name.
    pub connect: Duration,
    /// The pause after a first failed attempt; it doubles with each, to [`Timing::pause_most`].
    pub pause_first: Duration,
    /// The longest pause between two attempts.
    pub pause_most: Duration,
    /// The pause of a node that was in after a coordinator has refused it: somebody has to change something.
    pub pause_refused: Duration,
    /// Changes of the roster that come within this span are told together, so that a thousand nodes that start at once
    /// are told of in a few messages.
    pub gather: Duration,
    /// How long an end that closes a connection waits for the other one to do so.
    pub linger: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let millis = Duration::from_millis;
        Timing {
            beat: millis(500),
            silence: millis(5_000),
            handshake: millis(5_000),
            probe: millis(1_000),
            call: millis(30_000),
            idle: millis(5_000),
            connect: millis(3_000),
            pause_first: millis(100),
            pause_most: millis(2_000),
            pause_refused: millis(10_000),
            gather: millis(20),
            linger: millis(1_000),
        }
    }
}

/// Waits until then; for ever without a deadline.
pub(crate) async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The pauses between attempts: each twice the last, shortened at random by up to half, so that those who lost their coordinator, or came
/// to it, in the same moment do not come back in the same moment.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    most: Duration,
    random: u64,
}

impl Pauses {
    /// The first ones, by a number that others do not have.
    pub fn new(timing: &Timing, number: u64) -> Pauses {
        Pauses { next: timing.pause_first, most: timing.pause_most, random: number | 1 }
    }

    /// The next one.
    pub fn next(&mut self) -> Duration {
        // Marsaglia's xorshift64, which is random enough for this.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let pause = self.next.mul_f64(1.0 - (self.random % 1_000) as f64 / 2_000.0);
        self.next = (self.next * 2).min(self.most);
        pause
    }
}

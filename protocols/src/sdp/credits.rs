//! Credits: how many messages an end may send before the other end has freed private buffers.
//!
//! Each end has a number of private buffers, and each message takes one, but for those that only return credits and acknowledge: they
//! are read at once and hold nothing. The receiver frees the others' at once, if the message is control,
//! and when the user has read it, if it is data. It tells so by a running total in every message (annex A4's buffer count).
//!
//! The last [`RESERVE`] credits are for control, and what control took of them is returned at once: so control never waits for a user.
//! An end that owes half of its buffers returns them. To return needs no credit, so nobody waits for one that the other end owes.

/// Credits that data may not use.
const RESERVE: u32 = 2;

/// The fewest private buffers with which data flows beside the reserve.
pub(super) const LEAST_BUFFERS: u32 = 4;

/// What a message is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The user's bytes.
    Data,
    /// Control.
    Control,
}

/// One end's account of credits. All totals wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Credits {
    /// Messages sent, and how many the peer has granted in all.
    sent: u32,
    limit: u32,
    /// Messages received, and how many this end has granted in all; how many the peer was told.
    received: u32,
    granted: u32,
    told: u32,
    /// The private buffers of this end and of the other.
    buffers: u32,
    theirs: u32,
    /// Control of the peer took a credit of its last ones: it may need that for control to come.
    urgent: bool,
}

impl Credits {
    /// The account of an end with so many private buffers, which may not send anything yet.
    pub fn new(buffers: u32) -> Credits {
        let buffers = buffers.max(LEAST_BUFFERS);
        Credits {
            sent: 0,
            limit: 0,
            received: 0,
            granted: buffers,
            told: buffers,
            buffers,
            theirs: 0,
            urgent: false,
        }
    }

    /// The total that a message tells the peer from now on.
    pub fn grant(&mut self) -> u32 {
        self.told = self.granted;
        self.urgent = false;
        self.granted
    }

    /// The peer begins with so many private buffers.
    pub fn begin(&mut self, buffers: u32) {
        self.limit = buffers;
        self.theirs = buffers;
    }

    /// The peer's total. Says whether it can be: no total goes back, since messages arrive in order, and nobody grants more than
    /// it has.
    pub fn granted(&mut self, total: u32) -> bool {
        let (left, more) = (total.wrapping_sub(self.sent), total.wrapping_sub(self.limit));
        let sound = left <= self.theirs && more <= self.theirs;
        if sound {
            self.limit = total;
        }
        sound
    }

    /// Whether a message may be sent for this.
    pub fn may_send(&self, purpose: Purpose) -> bool {
        let left = self.limit.wrapping_sub(self.sent);
        match purpose {
            Purpose::Data => left > RESERVE,
            Purpose::Control => left > 0,
        }
    }

    /// A message is sent.
    pub fn spend(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// A message arrives. Says whether the peer had a credit for it.
    pub fn arrived(&mut self) -> bool {
        let had = self.granted.wrapping_sub(self.received) > 0;
        self.received = self.received.wrapping_add(1);
        had
    }

    /// A private buffer is free again.
    pub fn free(&mut self) {
        self.granted = self.granted.wrapping_add(1);
    }

    /// A private buffer is free again that a control message took. Data stops before the last credits; what they carry is
    /// given back at once, or a completion might wait for a user who waits for it.
    pub fn free_control(&mut self) {
        self.urgent |= self.told.wrapping_sub(self.received) <= RESERVE;
        self.free();
    }

    /// Credits that the peer has used and was not given back.
    pub fn owed(&self) -> u32 {
        self.granted.wrapping_sub(self.told)
    }

    /// Whether so many are owed that they are returned without waiting for another message.
    pub fn is_return_due(&self) -> bool {
        self.urgent || self.owed() >= self.buffers / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(buffers: u32) -> [Credits; 2] {
        let mut pair = [Credits::new(buffers); 2];
        for end in &mut pair {
            end.begin(buffers);
        }
        pair
    }

    #[test]
    fn data_leaves_credits_for_control() {
        let [mut a, _] = pair(5);
        for _ in 0..3 {
            assert!(a.may_send(Purpose::Data));
            a.spend();
        }
        assert!(!a.may_send(Purpose::Data) && a.may_send(Purpose::Control));
        a.spend();
        assert!(a.may_send(Purpose::Control));
        a.spend();
        assert!(!a.may_send(Purpose::Control));
    }

    /// Both ends send data as fast as credits allow, and users read it whenever they come to it: nobody waits for ever.
    #[test]
    fn two_ends_that_flood_each_other_never_both_wait() {
        for buffers in [4, 5, 8, 16] {
            let mut ends = pair(buffers);
            // By receiving end: what is under way, data or not, with the grant it carries.
            let mut wires: [std::collections::VecDeque<(bool, u32)>; 2] = Default::default();
            let mut unread = [0_u32; 2];
            let mut delivered = 0;
            let mut dice = dice_of(7 + u64::from(buffers));
            while delivered < 2_000 {
                let end = (dice() % 2) as usize;
                let mut moved = false;
                if ends[end].may_send(Purpose::Data) && !dice().is_multiple_of(3) {
                    ends[end].spend();
                    let grant = ends[end].grant();
                    wires[1 - end].push_back((true, grant));
                    moved = true;
                } else if unread[end] > 0 && dice().is_multiple_of(2) {
                    unread[end] -= 1;
                    ends[end].free();
                    moved = true;
                }
                if ends[end].is_return_due() {
                    let grant = ends[end].grant();
                    wires[1 - end].push_back((false, grant));
                    moved = true;
                }
                if let Some((data, grant)) = wires[end].pop_front() {
                    assert!(!data || ends[end].arrived());
                    assert!(ends[end].granted(grant));
                    if data {
                        unread[end] += 1;
                        delivered += 1;
                    }
                    moved = true;
                }
                let stuck = |end: usize| {
                    !ends[end].may_send(Purpose::Data) && unread[end] == 0 && wires[end].is_empty()
                };
                assert!(moved || !(stuck(0) && stuck(1)), "{buffers} buffers: {ends:?}");
            }
        }
    }

    fn dice_of(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }

    #[test]
    fn a_message_beyond_the_buffers_is_seen() {
        let mut end = Credits::new(4);
        for _ in 0..4 {
            assert!(end.arrived());
        }
        assert!(!end.arrived());
    }

    #[test]
    fn nobody_grants_more_than_it_has_or_takes_a_grant_back() {
        let [mut a, _] = pair(4);
        assert!(!a.granted(5) && !a.granted(3));
        a.spend();
        assert!(a.granted(5) && !a.granted(6) && !a.granted(4));
    }
}

//! What is asked for, how, and what a grant proves.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Together with other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Mode; 2] = [Mode::Shared, Mode::Exclusive];

    /// Whether holders in the two modes may hold one lock at the same time.
    pub fn goes_with(self, other: Mode) -> bool {
        self == Mode::Shared && other == Mode::Shared
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Shared => "shared",
            Mode::Exclusive => "exclusive",
        })
    }
}

/// Which protocol decides who holds a lock. All members of a service use the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// A server by send and receive: the lock's home queues requests and grants them (ncosed.txt, 2.2.1).
    Srsl,
    /// A distributed queue by remote compare-and-swap (ncosed.txt, 2.2.2). Nodes hold exclusively only: a
    /// request to share takes its turn alone. With the recovery that `Ncosed` has.
    Dqnl,
    /// Shared and exclusive locks by remote atomics on one word (ncosed.txt, 3.2), with the races that the
    /// paper leaves open repaired and with recovery from atomics whose outcome is unknown.
    Ncosed,
}

impl Scheme {
    /// Every scheme that this build has.
    pub const ALL: [Scheme; 3] = [Scheme::Srsl, Scheme::Dqnl, Scheme::Ncosed];

    /// The scheme's name in scenario files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Srsl => "srsl",
            Scheme::Dqnl => "dqnl",
            Scheme::Ncosed => "ncosed",
        }
    }

    /// Whether its grants carry a [`Token`] that is larger for each exclusive one. Of the others, among members, it says the view
    /// alone: it refuses who held in an earlier view, and cannot tell two holders of one view apart.
    pub const fn has_tokens(self) -> bool {
        matches!(self, Scheme::Srsl)
    }

    /// Whether several nodes may hold a lock shared at the same time. Where they may not, a shared request is
    /// served like an exclusive one, and applications of one node still share.
    pub const fn shares(self) -> bool {
        !matches!(self, Scheme::Dqnl)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no scheme's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no lock scheme is called {0:?}; there are srsl, dqnl and ncosed")]
pub struct UnknownScheme(pub String);

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Scheme, UnknownScheme> {
        Scheme::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| UnknownScheme(name.to_owned()))
    }
}

/// A fencing token: whoever guards the locked thing keeps the largest that it has seen and refuses smaller
/// ones, and so refuses a holder that was superseded without noticing.
///
/// Per lock, every exclusive grant's token is larger than all earlier grants' tokens. Shared grants that are held
/// at one time have one token, above that of the exclusive one before and below that of the one after; an
/// exclusive hold that is downgraded takes theirs. Nothing else is promised: there are gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Tokens that each grant of the network takes: one for its first holder, and one for each application of
    /// its node to which an exclusive hold may be handed off.
    const A_GRANT: u64 = 256;

    /// The token before the first that is granted in a view of the membership: those of the view before are below it
    /// ([`leaves_room_in`](Token::leaves_room_in)), and views are fewer than 2^24.
    pub(crate) const fn before_view(number: u64) -> Token {
        Token(number << 40)
    }

    /// Whether the network's next grant in a view, and a downgrade of it, have tokens below those of the next view: the first 2^32 or so
    /// have.
    pub(crate) const fn leaves_room_in(self, number: u64) -> bool {
        self.of_next_grant().of_next_grant().0 < Token::before_view(number + 1).0
    }

    /// The token of the network's next grant; for a hold that is downgraded, the one that it shares with those
    /// who are let in beside it. Not one that says a view alone: without members, a lock that was granted 2^32 times would come to it.
    pub(crate) const fn of_next_grant(self) -> Token {
        let next = Token((self.0 / Token::A_GRANT + 1) * Token::A_GRANT);
        if next.is_of_view() { Token(next.0 + Token::A_GRANT) } else { next }
    }

    /// The token of every grant of a view, of a scheme that counts no grants.
    pub(crate) const fn of_view(number: u64) -> Token {
        Token::before_view(number)
    }

    /// Whether it says the view alone.
    const fn is_of_view(self) -> bool {
        self.0 != 0 && self.0 & (Token::before_view(1).0 - 1) == 0
    }

    /// The token of an exclusive hold that its node hands off to the next of its applications.
    pub(crate) const fn handed_off(self) -> Token {
        if self.is_of_view() { self } else { Token(self.0 + 1) }
    }

    /// The token of an exclusive hold from its downgrade on.
    pub(crate) const fn downgraded(self) -> Token {
        if self.is_of_view() { self } else { self.of_next_grant() }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_read_back_from_its_name() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        let error = "paxos".parse::<Scheme>().unwrap_err().to_string();
        for scheme in Scheme::ALL {
            assert!(error.contains(scheme.name()), "{error}");
        }
    }

    #[test]
    fn modes_are_written_as_words_and_tokens_as_numbers_as_wide_as_asked_for() {
        assert_eq!(
            format!("{:>7} {:<10}|{:>4}", Mode::Shared, Mode::Exclusive, Token(7)),
            " shared exclusive |   7"
        );
        assert_eq!(format!("{:>5}", Scheme::Srsl), " srsl");
    }

    #[test]
    fn a_lock_that_was_granted_2_to_the_32_times_is_handed_off_and_downgraded_with_growing_tokens_as_before()
    {
        for grants in [1, 7, 1 << 32, 3 << 32] {
            let before = Token((grants - 1) * Token::A_GRANT);
            let granted = before.of_next_grant();
            let next = granted.of_next_grant();
            assert!(
                before < granted && granted < granted.handed_off() && granted.handed_off() < next,
                "{grants}"
            );
            assert_eq!(granted.downgraded(), next, "{grants}: as its home counts");
        }
    }

    #[test]
    fn the_last_grant_of_a_view_leaves_room_for_its_downgrade_below_the_next_view() {
        let end = Token::before_view(8).0;
        for (last, leaves) in [(3, true), (2, false), (1, false)] {
            assert_eq!(Token(end - last * Token::A_GRANT).leaves_room_in(7), leaves, "{last}");
        }
    }

    #[test]
    fn only_shared_goes_with_shared() {
        assert!(Mode::Shared.goes_with(Mode::Shared));
        assert!(!Mode::Shared.goes_with(Mode::Exclusive));
        assert!(!Mode::Exclusive.goes_with(Mode::Shared));
        assert!(!Mode::Exclusive.goes_with(Mode::Exclusive));
    }
}

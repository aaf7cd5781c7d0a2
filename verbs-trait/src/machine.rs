//! What backends on real machines share: the clock, and when byte streams break. It is no part of the contract.

use crate::Nanos;
use crate::silence::{BETWEEN, QUESTIONS, QUIET};
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// A clock that never goes back, and that counts the time for which the machine was suspended. On Linux the monotonic one does not
/// (clock_gettime(2)); on others it does, or there is no better one.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds of that clock. Some are read for each message, and the standard library's arithmetic costs three times what the reading does.
#[inline]
fn reading() -> u64 {
    let time = clock_gettime(CLOCK);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time since the process first asked: the clock of all its nodes. A lease that others have waited for has run out as a suspended machine
/// wakes.
pub fn now() -> Nanos {
    static BEGAN: OnceLock<u64> = OnceLock::new();
    let began = *BEGAN.get_or_init(reading);
    Nanos(reading().saturating_sub(began))
}

/// Has a stream of TCP break if the other machine says nothing for [`QUIET`] and all questions, whether or not it owes something; and if its
/// program takes in nothing for as long while bytes wait for it, though the machine says that there is no room (tcp(7), `TCP_USER_TIMEOUT`).
///
/// # Errors
///
/// It is no stream of TCP.
pub fn notice_death(stream: &impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, BETWEEN)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // While bytes are on their way nothing is asked.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, (QUIET + BETWEEN * QUESTIONS).as_millis() as u32)?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_stream_to_a_machine_that_lost_its_power_breaks_within_a_minute_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let asks = TcpStream::connect(listener.local_addr().expect("an address")).expect("a stream");
        let (asked, _) = listener.accept().expect("it comes");
        for stream in [asks, asked] {
            notice_death(&stream).expect("a stream of TCP");
            assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
            assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(QUESTIONS));
            let questions = sockopt::tcp_keepintvl(&stream).expect("it is set") * QUESTIONS;
            let silence = sockopt::tcp_keepidle(&stream).expect("it is set") + questions;
            assert_eq!(silence, Duration::from_secs(40));
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(40_000));
        }
    }

    #[test]
    fn the_clock_is_the_one_that_counts_the_time_for_which_a_machine_is_suspended() {
        let boot = || clock_gettime(ClockId::Boottime);
        let (before, read, after) = (boot(), reading(), boot());
        let nanos = |time: rustix::time::Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        assert!((nanos(before)..=nanos(after)).contains(&read));
    }
}

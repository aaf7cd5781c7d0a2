//! The little that is needed of the operating system beside verbs.

use super::{errno, refused};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use weft_verbs::{Result, VerbsError};

/// An error of rustix's.
fn failed(call: &'static str) -> impl Fn(Errno) -> VerbsError {
    move |errno| refused(call, errno.raw_os_error())
}

pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::io::ioctl_fionbio(fd, true).map_err(failed("ioctl"))
}

/// The processor's cycle counter, where it has one that programs may read: what `perftest` measures with.
#[cfg(feature = "suite")]
pub fn cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The first IPv4 address of a network interface.
pub(crate) fn interface_address(name: &str) -> Option<Ipv4Addr> {
    addresses()?.into_iter().find(|(interface, _)| interface == name).map(|(_, address)| address)
}

/// The IPv4 addresses of this network namespace; none where the system does not list them.
pub(crate) fn own_addresses() -> Option<Vec<Ipv4Addr>> {
    Some(addresses()?.into_iter().map(|(_, address)| address).collect())
}

/// The IPv4 addresses of all network interfaces, with these.
fn addresses() -> Option<Vec<(String, Ipv4Addr)>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the place for the list's head lives for the call.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let (mut at, mut found) = (first, Vec::new());
    // SAFETY: `at` is null or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: an entry's address is null or begins with its family.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| i32::from(address.sa_family));
        if family == Some(libc::AF_INET) {
            // SAFETY: every entry has a name that ends with a zero.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            // SAFETY: an address of that family is a `sockaddr_in`.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let address = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            found.push((name.to_string_lossy().into_owned(), address));
        }
    }
    // SAFETY: the list that the call above made, once.
    unsafe { libc::freeifaddrs(first) };
    Some(found)
}

/// A socket address as C takes it.
#[repr(C)]
pub(super) union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    pub(super) fn new(address: SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(a) => RawAddress {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(a) => RawAddress {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                    sin6_scope_id: a.scope_id(),
                },
            },
        }
    }

    /// Its IP address; none of one that has none.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        // SAFETY: addresses of all families begin with their family.
        match i32::from(unsafe { self.v4.sin_family }) {
            libc::AF_INET => {
                // SAFETY: an address of that family is a `sockaddr_in`.
                let raw = unsafe { self.v4.sin_addr.s_addr };
                Some(IpAddr::from(raw.to_ne_bytes()))
            }
            // SAFETY: an address of that family is a `sockaddr_in6`.
            libc::AF_INET6 => Some(IpAddr::from(unsafe { self.v6.sin6_addr.s6_addr })),
            _ => None,
        }
    }

    pub(super) fn as_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut *self).cast()
    }
}

/// A descriptor that becomes ready at a moment.
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> Result<Alarm> {
        // It counts the time for which the machine was suspended, as the clock of nodes does.
        let clock = rustix::time::TimerfdClockId::Boottime;
        let made = timerfd_create(clock, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
        made.map(Alarm).map_err(failed("timerfd_create"))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sets it off after a span; 0 never. Once it has rung it is ready until it is set again: nobody reads it.
    pub(crate) fn set(&self, nanos: u64) {
        let when = Itimerspec { it_interval: timespec(0), it_value: timespec(nanos) };
        // The descriptor is a timer's, and the span is one.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &when);
    }
}

/// Waits for any of several descriptors.
pub(crate) struct Epoll(OwnedFd);

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    /// As it was given to [`Epoll::add`].
    pub token: u64,
    pub read: bool,
    pub write: bool,
    /// The other end, or the device behind it, is gone: it is ready for ever.
    pub broken: bool,
}

impl Epoll {
    pub(crate) fn new() -> Result<Epoll> {
        epoll::create(CreateFlags::CLOEXEC).map(Epoll).map_err(failed("epoll_create1"))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Watches a descriptor for reading, as long as it is ready.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64) -> Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(token), EventFlags::IN).map_err(failed("epoll_ctl"))
    }

    /// Watches a descriptor for reading and writing, at each change.
    pub(crate) fn add_edges(&self, fd: BorrowedFd<'_>, token: u64) -> Result<()> {
        let edges = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.0, fd, EventData::new_u64(token), edges).map_err(failed("epoll_ctl"))
    }

    /// Forgets a descriptor, before it is closed.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, fd);
    }

    /// Forgets the descriptor of that number, which is watched.
    pub(crate) fn remove_number(&self, fd: RawFd) {
        // SAFETY: who watches a descriptor forgets it before it is closed, so it is open.
        self.remove(unsafe { BorrowedFd::borrow_raw(fd) });
    }

    /// Waits until a descriptor is ready or the time is over; `None` is for ever. A signal ends the wait.
    pub(crate) fn wait(&self, nanos: Option<u64>, ready: &mut Vec<Readiness>) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; MOST];
        ready.clear();
        let n = match nanos {
            Some(0) => self.look(&mut events),
            _ => self.sleep(nanos, &mut events).unwrap_or_else(|| {
                self.sleep_beside(nanos);
                self.look(&mut events)
            }),
        };
        for event in &events[..n] {
            let (flags, data) = (event.flags, event.data);
            let has = |what| flags.intersects(what);
            let broken = has(EventFlags::ERR | EventFlags::HUP);
            let read = broken || has(EventFlags::IN | EventFlags::RDHUP);
            ready.push(Readiness { token: data.u64(), read, write: broken || has(EventFlags::OUT), broken });
        }
    }
}

/// Most descriptors that one wait tells of.
const MOST: usize = 32;

/// A span as the kernel takes it, at most 68 years.
fn timespec(nanos: u64) -> Timespec {
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Timespec { tv_sec: seconds.min(i32::MAX as u64) as _, tv_nsec: rest as _ }
}

/// Whether a call that failed with that can never succeed. A signal ends a wait, and the next one waits again; whatever else a kernel or a
/// filter answers (ENOSYS, EPERM, EACCES), it would answer again at once, and a node that sleeps would spin and hear nothing.
fn is_missing(errno: i32) -> bool {
    errno != libc::EINTR
}

impl Epoll {
    /// What is ready now: how many events.
    fn look(&self, events: &mut [Event; MOST]) -> usize {
        epoll::wait(&self.0, events, Some(&timespec(0))).unwrap_or(0)
    }

    /// Waits by `epoll_pwait2`, which counts in nanoseconds (rustix asks for it where it is told that every kernel has it, and for milliseconds
    /// elsewhere): how many events. `None` where the kernel does not have it (before 5.11), or
    /// a filter of system calls does not let it pass.
    fn sleep(&self, nanos: Option<u64>, events: &mut [Event; MOST]) -> Option<usize> {
        static MISSING: AtomicBool = AtomicBool::new(false);
        if MISSING.load(Ordering::Relaxed) {
            return None;
        }
        let span = nanos.map(timespec);
        let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (most, no_mask) = (MOST as i32, std::ptr::null::<libc::sigset_t>());
        // SAFETY: the array has `MOST` places, each laid out as the kernel's; so is the span, which lives for the call, if there is one; no
        // signal mask.
        let n = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, self.0.as_raw_fd(), events.as_mut_ptr(), most, span, no_mask, 0_usize)
        };
        if n < 0 && is_missing(errno()) {
            MISSING.store(true, Ordering::Relaxed);
            return None;
        }
        Some(usize::try_from(n).unwrap_or(0))
    }

    /// `epoll_wait` counts in milliseconds, a thousand round trips: `ppoll` on the epoll descriptor counts finer.
    fn sleep_beside(&self, nanos: Option<u64>) {
        let span = nanos.map(timespec);
        let _ = rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], span.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_its_address_and_one_that_is_not_there_has_none() {
        assert_eq!(interface_address("lo"), Some(Ipv4Addr::LOCALHOST));
        assert_eq!(interface_address("no-such-interface"), None);
        assert!(own_addresses().is_some_and(|own| own.contains(&Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn an_address_as_c_has_it_says_its_ip_address() {
        for ip in ["10.0.0.2", "fd00::2"].map(|ip| ip.parse().expect("it is one")) {
            assert_eq!(RawAddress::new(SocketAddr::new(ip, 7)).ip(), Some(ip));
        }
        let mut none = RawAddress::new(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7));
        none.v4.sin_family = libc::AF_UNSPEC as libc::sa_family_t;
        assert_eq!(none.ip(), None);
    }

    #[test]
    fn a_wait_that_a_filter_forbids_is_one_that_is_not_there_and_one_that_a_signal_ended_is() {
        assert!([libc::ENOSYS, libc::EPERM, libc::EACCES].into_iter().all(is_missing));
        assert!(!is_missing(libc::EINTR));
    }
}

//! The little that is needed of the operating system beside verbs.

use super::{errno, refused};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_verbs::{Result, silence};

pub(super) fn set_nonblocking(fd: RawFd) -> Result<()> {
    // SAFETY: `fcntl` on a descriptor touches no memory of ours.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(refused("fcntl", errno()));
    }
    Ok(())
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

/// Begins a TCP connection: the stream can be written once it stands.
pub(crate) fn connect_without_waiting(to: SocketAddr) -> Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: touches no memory of ours.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(refused("socket", errno()));
    }
    // SAFETY: a socket that was just made and is nobody else's; the stream closes it.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    let mut raw = RawAddress::new(to);
    // SAFETY: the address is whole, by its family, and lives for the call.
    let answer = unsafe { libc::connect(fd, raw.as_ptr().cast(), raw.len(to)) };
    if answer < 0 && errno() != libc::EINPROGRESS {
        return Err(refused("connect", errno()));
    }
    Ok(stream)
}

/// Has a stream of TCP break if the other machine says nothing for so long, though it owes nothing. (A writer waits for its reader for as
/// long as that takes, so nothing bounds the time for which bytes are on their way.)
pub(crate) fn notice_death(stream: &TcpStream) -> Result<()> {
    let seconds = |span: Duration| span.as_secs() as libc::c_int;
    for (level, option, value) in [
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(silence::QUIET)),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(silence::BETWEEN)),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, silence::QUESTIONS as libc::c_int),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    ] {
        let len = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the value is one number, and lives for the call.
        let set = unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, (&raw const value).cast(), len) };
        if set != 0 {
            return Err(refused("setsockopt", errno()));
        }
    }
    Ok(())
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

    fn len(&self, of: SocketAddr) -> libc::socklen_t {
        let len = if of.is_ipv4() { size_of::<libc::sockaddr_in>() } else { size_of::<libc::sockaddr_in6>() };
        len as libc::socklen_t
    }
}

/// The clock that never goes back, and that counts the time for which the machine was suspended: a lease that others have waited for has
/// run out as it wakes.
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;

/// Nanoseconds of that clock.
#[inline]
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is a timespec. This clock is there on every Linux since 2.6.39 (man 2 clock_gettime), so the call does not fail.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A word that differs from process to process.
pub(crate) fn random_seed() -> Result<u64> {
    let mut word = 0u64;
    // SAFETY: the place has 8 bytes.
    let got = unsafe { libc::getrandom((&raw mut word).cast(), 8, 0) };
    // So few bytes come in whole or not at all (man 2 getrandom).
    if got == 8 { Ok(word) } else { Err(refused("getrandom", errno())) }
}

/// A descriptor that becomes ready at a moment.
pub(crate) struct Alarm(RawFd);

impl Alarm {
    pub(crate) fn new() -> Result<Alarm> {
        // SAFETY: touches no memory of ours.
        let fd =
            unsafe { libc::timerfd_create(CLOCK, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 { Err(refused("timerfd_create", errno())) } else { Ok(Alarm(fd)) }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0
    }

    /// Sets it off after a span; 0 never. Once it has rung it is ready until it is set again: nobody reads it.
    pub(crate) fn set(&self, nanos: u64) {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        };
        let when = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the structure lives for the call; no old value is asked for.
        unsafe { libc::timerfd_settime(self.0, 0, &when, std::ptr::null_mut()) };
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: opened by `new`, closed once.
        unsafe { libc::close(self.0) };
    }
}

/// Waits for any of several descriptors.
pub(crate) struct Epoll(RawFd);

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
        // SAFETY: touches no memory of ours.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 { Err(refused("epoll_create1", errno())) } else { Ok(Epoll(fd)) }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0
    }

    fn control(&self, what: i32, fd: RawFd, events: i32, token: u64) -> Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the event is valid for the call; a descriptor that is closed already is refused with an errno.
        if unsafe { libc::epoll_ctl(self.0, what, fd, &mut event) } < 0 {
            return Err(refused("epoll_ctl", errno()));
        }
        Ok(())
    }

    /// Watches a descriptor for reading, as long as it is ready.
    pub(crate) fn add(&self, fd: RawFd, token: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, token)
    }

    /// Watches a descriptor for reading and writing, at each change.
    pub(crate) fn add_edges(&self, fd: RawFd, token: u64) -> Result<()> {
        let edges = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, fd, edges, token)
    }

    /// Forgets a descriptor, before it is closed.
    pub(crate) fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// Waits until a descriptor is ready or the time is over; `None` is for ever. A signal ends the wait.
    pub(crate) fn wait(&self, nanos: Option<u64>, ready: &mut Vec<Readiness>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        ready.clear();
        let n = match nanos {
            Some(0) => self.look(&mut events),
            _ => self.sleep(nanos, &mut events).unwrap_or_else(|| {
                self.sleep_beside(nanos);
                self.look(&mut events)
            }),
        };
        for event in &events[..n] {
            let (flags, token) = (event.events, event.u64);
            let has = |what: i32| flags & what as u32 != 0;
            let broken = has(libc::EPOLLERR) || has(libc::EPOLLHUP);
            let read = broken || has(libc::EPOLLIN) || has(libc::EPOLLRDHUP);
            ready.push(Readiness { token, read, write: broken || has(libc::EPOLLOUT), broken });
        }
    }
}

/// Most descriptors that one wait tells of.
const MOST: usize = 32;

/// A span as the kernel takes it, at most 68 years.
fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / 1_000_000_000).min(i32::MAX as u64) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    }
}

/// Whether a call that failed with that can never succeed. A signal ends a wait, and the next one waits again; whatever else a kernel or a
/// filter answers (ENOSYS, EPERM, EACCES), it would answer again at once, and a node that sleeps would spin and hear nothing.
fn is_missing(errno: i32) -> bool {
    errno != libc::EINTR
}

impl Epoll {
    /// What is ready now: how many events.
    fn look(&self, events: &mut [libc::epoll_event; MOST]) -> usize {
        // SAFETY: the array has `MOST` places.
        let n = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), MOST as i32, 0) };
        usize::try_from(n).unwrap_or(0)
    }

    /// Waits by `epoll_pwait2`, which counts in nanoseconds: how many events. `None` where the kernel does not have it (before 5.11), or
    /// a filter of system calls does not let it pass.
    fn sleep(&self, nanos: Option<u64>, events: &mut [libc::epoll_event; MOST]) -> Option<usize> {
        static MISSING: AtomicBool = AtomicBool::new(false);
        if MISSING.load(Ordering::Relaxed) {
            return None;
        }
        let span = nanos.map(timespec);
        let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (most, no_mask) = (MOST as i32, std::ptr::null::<libc::sigset_t>());
        // SAFETY: the array has `MOST` places; the span, if any, lives for the call; no signal mask.
        let n = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, self.0, events.as_mut_ptr(), most, span, no_mask, 0_usize)
        };
        if n < 0 && is_missing(errno()) {
            MISSING.store(true, Ordering::Relaxed);
            return None;
        }
        Some(usize::try_from(n).unwrap_or(0))
    }

    /// `epoll_wait` counts in milliseconds, a thousand round trips: `ppoll` on the epoll descriptor counts finer.
    fn sleep_beside(&self, nanos: Option<u64>) {
        let mut on = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        let span = nanos.map(timespec);
        let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one descriptor's record; the span, if any, lives for the call; no signal mask.
        unsafe { libc::ppoll(&mut on, 1, span, std::ptr::null()) };
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: opened by `new`, closed once.
        unsafe { libc::close(self.0) };
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

    fn option(stream: &TcpStream, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let (mut value, mut len) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        let place = (&raw mut value).cast();
        // SAFETY: the place is one number, and its length beside it.
        let got = unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, place, &raw mut len) };
        assert_eq!(got, 0);
        value
    }

    #[test]
    fn a_silent_stream_to_a_machine_that_lost_its_power_breaks_within_a_minute_at_both_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let asks = connect_without_waiting(listener.local_addr().expect("an address")).expect("a stream");
        let (asked, _) = listener.accept().expect("it comes");
        for stream in [asks, asked] {
            notice_death(&stream).expect("a stream of TCP");
            assert_eq!(option(&stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
            let of_tcp = |which| option(&stream, libc::IPPROTO_TCP, which);
            let questions = of_tcp(libc::TCP_KEEPINTVL) * of_tcp(libc::TCP_KEEPCNT);
            assert_eq!(of_tcp(libc::TCP_KEEPIDLE) + questions, 40);
        }
    }

    #[test]
    fn a_wait_that_a_filter_forbids_is_one_that_is_not_there_and_one_that_a_signal_ended_is() {
        assert!([libc::ENOSYS, libc::EPERM, libc::EACCES].into_iter().all(is_missing));
        assert!(!is_missing(libc::EINTR));
    }
}

//! A calibration profile from measurements: what a machine and its adapter cost, found on a device as it is.
//!
//! [`Prober`] is a program like any other: it runs on real devices and, for its test, on the simulated fabric, whose figures it
//! must find again. It speaks to itself, from one queue pair to another of the same adapter, so it needs one machine
//! and sees neither cable nor switch. What it cannot see stays as another profile has it, and the file says so figure by figure.

mod bench;
mod prober;

pub use prober::Prober;

use std::cell::RefCell;
use std::rc::Rc;
use weft_sim::profile::{Profile, ProfileError};
use weft_verbs::{DeviceAttr, PortAttr, Wait};

/// Bytes of the small message.
const SMALL: u32 = 64;

/// What was measured, in nanoseconds: the medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Posting one request, and a list of [`Measured::LIST`].
    pub post: u64,
    /// See [`Measured::post`].
    pub post_list: u64,
    /// Polling a queue that is empty, and one that has a completion.
    pub poll_empty: u64,
    /// See [`Measured::poll_empty`].
    pub poll_hit: u64,
    /// Arming a completion queue.
    pub arm: u64,
    /// Taking an event.
    pub event: u64,
    /// A message of 64 bytes, from the call until its receiver has it, who polls.
    pub send: u64,
    /// The same of one whole packet.
    pub send_packet: u64,
    /// The same of 64 bytes, of a receiver who sleeps.
    pub send_notified: u64,
    /// A read of 8 bytes, from the call until its completion is taken.
    pub read: u64,
    /// A compare-and-swap, if the device has remote atomics.
    pub compare_swap: Option<u64>,
    /// A fetch-and-add, likewise.
    pub fetch_add: Option<u64>,
    /// Registering one page.
    pub register: u64,
    /// Registering [`Measured::PAGES`] pages.
    pub register_many: u64,
    /// Making a completion queue.
    pub create: u64,
    /// Changing a queue pair's state.
    pub modify: u64,
    /// Copying a MiB.
    pub copy: u64,
    /// Entering and leaving the operating system.
    pub syscall: u64,
}

impl Measured {
    /// Requests of the list.
    pub const LIST: u64 = 16;
    /// Pages of the larger region.
    pub const PAGES: u64 = 1024;
}

/// What comes of a [`Prober`], once it has ended.
pub type Result = std::result::Result<Measured, String>;

/// Where a [`Prober`] leaves it.
pub type Place = Rc<RefCell<Option<Result>>>;

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its limits.
    pub device: DeviceAttr,
    /// The port that was measured.
    pub port: PortAttr,
}

/// The profile of a machine that was measured. What was not measured is that of `base`.
///
/// An operation's time is a sum of which only some shares can be seen. The others keep the proportions that they have in `base`.
///
/// # Errors
///
/// A time is out of the bounds that profiles have.
pub fn profile(
    name: &str,
    measured: &Measured,
    said: &Said,
    base: &Profile,
) -> std::result::Result<Profile, ProfileError> {
    let device = format!("{}, by weft calibrate", said.device.model);
    let by = |how: &str| format!("measured on {device}: {how}");
    let mut made = base.clone();
    made.name = name.to_string();
    made.about = format!("A machine with {device}; what it cannot see is that of {}", base.name);
    made.assume(&format!("not measured: as in {}", base.name));
    let mut set = |figure: &str, value: u64, source: &str| {
        made.set(figure, i64::try_from(value).unwrap_or(i64::MAX), source)
    };

    let m = measured;
    for (figure, value, how) in [
        ("cpu.post_ns", m.post, "a list of one"),
        (
            "cpu.post_more_ns",
            m.post_list.saturating_sub(m.post) / (Measured::LIST - 1),
            "a list of 16 above a list of one",
        ),
        ("cpu.poll_empty_ns", m.poll_empty, "an empty queue"),
        ("cpu.poll_hit_ns", m.poll_hit, "a queue with one completion"),
        ("cpu.arm_ns", m.arm, "the call"),
        ("cpu.event_ns", m.event, "the call that takes it"),
        ("cpu.copy_ns_per_kib", m.copy / 1024, "a MiB"),
        ("cpu.stream_ns_per_kib", m.copy / 1024, "as a copy"),
        ("cpu.syscall_ns", m.syscall, "sched_yield with nobody to yield to"),
        ("cpu.create_ns", m.create, "a completion queue"),
        ("cpu.modify_qp_ns", m.modify, "the mean of Init, RTR and RTS"),
    ] {
        set(figure, value, &by(how))?;
    }
    let page = m.register_many.saturating_sub(m.register) / (Measured::PAGES - 1);
    set("cpu.register_page_ns", page, &by("4 MiB above 4 KiB"))?;
    set("cpu.register_ns", m.register.saturating_sub(page), &by("4 KiB, less its page"))?;

    let packet = u64::from(said.port.active_mtu.bytes()).max(2 * u64::from(SMALL));
    let more = 2 * (packet - u64::from(SMALL));
    let dma = m.send_packet.saturating_sub(m.send) * 1024 / more;
    set("adapter.dma_ns_per_kib", dma, &by("a whole packet above 64 bytes, half of it on either side"))?;

    // What is left of a send after what was measured by itself, in the proportions of the other profile.
    let (cpu, adapter) = (&base.cpu, &base.adapter);
    let seen = m.post + m.poll_hit + 2 * dma * u64::from(SMALL) / 1024;
    let left = m.send.saturating_sub(seen);
    let whole = (adapter.tx_ns + adapter.rx_ns + adapter.completion_ns + cpu.poll_detect_ns).max(1);
    let share = |of: u64| (u128::from(left) * u128::from(of) / u128::from(whole)) as u64;
    let (tx, rx, completion) = (share(adapter.tx_ns), share(adapter.rx_ns), share(adapter.completion_ns));
    let (detect, ack) = (left.saturating_sub(tx + rx + completion), share(adapter.ack_ns));
    let split = format!("derived: share of a send of 64 bytes, split as in {}", base.name);
    for (figure, value) in [
        ("adapter.tx_ns", tx),
        ("adapter.rx_ns", rx),
        ("adapter.completion_ns", completion),
        ("cpu.poll_detect_ns", detect),
        ("adapter.ack_ns", ack),
    ] {
        set(figure, value, &split)?;
    }
    let way = m.post + m.poll_hit + tx + 2 * rx + ack + completion + detect + dma * 8 / 1024;
    let rest = format!("derived: rest of the operation, {}", by("the median"));
    for (figure, value) in [
        ("adapter.read_ns", Some(m.read)),
        ("adapter.compare_swap_ns", m.compare_swap),
        ("adapter.fetch_add_ns", m.fetch_add),
    ] {
        value.map_or(Ok(()), |value| set(figure, value.saturating_sub(way), &rest))?;
    }
    let asleep = (m.send_notified + detect).saturating_sub(m.send + m.event);
    set(
        "cpu.interrupt_ns",
        asleep,
        &by("a send to who sleeps above one to who polls, less the event's call"),
    )?;

    let says = format!("what {} says", said.device.model);
    set("link.bits_per_second", said.port.bits_per_second, &says)
        .or_else(|_| set("link.bits_per_second", base.link.bits_per_second, "the port does not say it"))?;
    set("transport.mtu", said.port.active_mtu.bytes().into(), &says)?;
    for (figure, value) in limits(&said.device) {
        // One that is out of a profile's bounds stays as it is.
        let _ = set(figure, value, &says);
    }
    Ok(made)
}

fn limits(device: &DeviceAttr) -> [(&'static str, u64); 10] {
    [
        ("adapter.max_qp", device.max_qp.into()),
        ("adapter.max_qp_wr", device.max_qp_wr.into()),
        ("adapter.max_sge", device.max_sge.into()),
        ("adapter.max_inline", device.max_inline.into()),
        ("adapter.max_cq", device.max_cq.into()),
        ("adapter.max_cqe", device.max_cqe.into()),
        ("adapter.max_mr", device.max_mr.into()),
        ("adapter.max_mr_size", device.max_mr_size),
        ("adapter.max_srq", device.max_srq.into()),
        ("adapter.max_rd_atomic", device.max_rd_atomic.into()),
    ]
}

/// The operations whose times a profile gives as sums, for a table of what was measured beside what comes out: in nanoseconds,
/// without cable and switch on either side.
pub fn operations(profile: &Profile) -> [(&'static str, u64); 5] {
    let mut near = profile.clone();
    // A fabric so short and fast that an operation is what adapter and processor take.
    for (figure, value) in
        [("link.propagation_ns", 0), ("switch.latency_ns", 0), ("link.bits_per_second", 10_000_000_000_000)]
    {
        near.set(figure, value, "within one machine").expect("within its bounds");
    }
    [
        ("send, 64 bytes, one way, polling", near.one_way_send(SMALL.into(), Wait::Poll).0),
        ("send, 64 bytes, one way, notified", near.one_way_send(SMALL.into(), Wait::Notify).0),
        ("read, 8 bytes", near.read(8, Wait::Poll).0),
        ("compare-and-swap", near.compare_swap(Wait::Poll).0),
        ("fetch-and-add", near.fetch_add(Wait::Poll).0),
    ]
}

/// What was measured of these operations.
pub fn measured_operations(measured: &Measured) -> [Option<u64>; 5] {
    let Measured { send, send_notified, read, compare_swap, fetch_add, .. } = *measured;
    [Some(send), Some(send_notified), Some(read), compare_swap, fetch_add]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sim::choice::First;
    use weft_sim::{Config, Fabric, NodeId, Sim};
    use weft_verbs::{Context, Device, Nanos};

    /// Measures a simulated machine.
    fn measured(profile: &Profile, atomics: bool) -> (Measured, Said) {
        let config = Config { atomics, ..Config::new(1, profile.clone()) };
        let fabric = Fabric::new(config, Box::new(First)).expect("a machine");
        let context = fabric.devices(NodeId(0))[0].open().expect("its device");
        let said = Said { device: context.device_attr(), port: context.port_attr(1).expect("its port") };
        let (prober, place) = Prober::<Sim>::new(&context, 1, 0, 20);
        fabric.mount(NodeId(0), Box::new(prober));
        fabric.run_until(Nanos::from_secs(10));
        let result = place.take().expect("it has ended");
        (result.expect("it was measured"), said)
    }

    #[test]
    fn what_is_measured_on_a_machine_are_its_figures() {
        let base = Profile::builtin("present-day").expect("a profile");
        for name in ["ncosed-2007", "sdp-2011", "present-day"] {
            let truth = Profile::builtin(name).expect("a profile");
            let (measured, said) = measured(&truth, true);
            let found = profile("found", &measured, &said, &base).expect("a profile");
            let figure = |of: &Profile, name: &str| {
                of.figures().iter().find(|figure| figure.name == name).expect("a figure").value
            };
            for seen in [
                "cpu.post_ns",
                "cpu.post_more_ns",
                "cpu.poll_empty_ns",
                "cpu.poll_hit_ns",
                "cpu.arm_ns",
                "cpu.event_ns",
                "cpu.copy_ns_per_kib",
                "cpu.syscall_ns",
                "cpu.create_ns",
                "cpu.modify_qp_ns",
                "cpu.register_ns",
                "cpu.register_page_ns",
                "adapter.dma_ns_per_kib",
                "link.bits_per_second",
                "transport.mtu",
                "adapter.max_sge",
            ] {
                let (is, was) = (figure(&found, seen), figure(&truth, seen));
                assert!(is.abs_diff(was) <= 2 + was / 100, "{name}: {seen} is {was}, found {is}");
            }
            for ((what, is), (_, was)) in operations(&found).into_iter().zip(operations(&truth)) {
                assert!(is.abs_diff(was) <= 5 + was / 50, "{name}: {what} takes {was} ns, found {is}");
            }
            assert_eq!(Profile::parse(&found.to_toml()).expect("its file"), found, "{name}");
            let switch =
                found.figures().iter().find(|figure| figure.name == "switch.latency_ns").expect("a figure");
            assert_eq!(switch.source, "not measured: as in present-day");
        }
    }

    #[test]
    fn a_machine_without_remote_atomics_is_measured_and_their_figures_stay_as_they_were() {
        let [base, truth] =
            ["present-day", "sdp-2011"].map(|name| Profile::builtin(name).expect("a profile"));
        let (measured, said) = measured(&truth, false);
        let found = profile("found", &measured, &said, &base).expect("a profile");
        let figure = |of: &Profile, name: &str| {
            let figures = of.figures();
            let figure = figures.iter().find(|figure| figure.name == name).expect("a figure");
            (figure.value, figure.source.to_string())
        };
        for atomic in ["adapter.compare_swap_ns", "adapter.fetch_add_ns"] {
            let as_it_was = (figure(&base, atomic).0, "not measured: as in present-day".to_string());
            assert_eq!(figure(&found, atomic), as_it_was);
        }
        assert!(figure(&found, "adapter.read_ns").1.starts_with("derived: rest of the operation"));
        assert_eq!(measured_operations(&measured)[3..], [None, None]);
    }
}

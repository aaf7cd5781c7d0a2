//! Devices, their ports and addresses, and the context in which a device is open.

use crate::cm::{HwCm, Manager};
use crate::completion::{CqHandle, HwChannel, HwCq};
use crate::disk::{Calls, HwDisk};
use crate::convert::{
    async_event, bits_per_second, check_transport, link_layer_of, mtu_of, port_state_of, requires_header, vector,
};
use crate::ffi::{self, DeviceLimits, SendBatch, Vector};
use crate::gids::FoundAddress;
use crate::host::HwHost;
use crate::ledger::Ledgers;
use crate::memory::HwPd;
use crate::oob::HwOob;
use crate::reactor::{Hint, Reactor};
use crate::Hw;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use weft_store::Objects;
use weft_verbs::{
    AsyncEvent, Caps, Context, CqId, Device, DeviceAttr, Gid, LinkLayer, Path, PortAttr, Result, VerbsError,
};

/// A real device.
#[derive(Clone)]
pub struct HwDevice {
    raw: ffi::Device,
    /// The contexts in which it is open, of this handle and its clones.
    open: Rc<RefCell<Vec<Weak<ContextInner>>>>,
    /// The machine's store, where it has been given one.
    store: Rc<RefCell<Option<Arc<Objects>>>>,
}

impl fmt::Debug for HwDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwDevice").field(&self.raw.name()).finish()
    }
}

impl HwDevice {
    /// The machine's RDMA devices, in `libibverbs`' order. None is no error: a machine without an adapter, or whose
    /// kernel has no `ib_uverbs`, has none.
    pub fn all() -> Result<Vec<HwDevice>> {
        Ok(ffi::devices()?.into_iter().map(|raw| HwDevice { raw, open: Rc::default(), store: Rc::default() }).collect())
    }

    /// The device of a name, or the first one.
    pub fn find(name: Option<&str>) -> Result<Option<HwDevice>> {
        Ok(HwDevice::all()?.into_iter().find(|device| name.is_none_or(|n| device.name() == n)))
    }

    /// Gives the machine a disk: contexts that this handle or a clone of it opens from now on have these objects.
    pub fn set_store(&self, objects: Option<Arc<Objects>>) {
        *self.store.borrow_mut() = objects;
    }

    /// The device's globally unique identifier.
    pub(crate) fn guid(&self) -> u64 {
        self.raw.guid()
    }

    /// The contexts in which this handle or a clone of it opened the device, and that are alive.
    #[cfg(feature = "suite")]
    pub fn open_contexts(&self) -> Vec<HwContext> {
        self.open.borrow().iter().filter_map(Weak::upgrade).map(HwContext).collect()
    }

    /// What the kernel has of the device: the driver's kind. Soft-RoCE devices have a parent interface.
    fn model(&self, limits: &DeviceLimits) -> Model {
        let class = format!("/sys/class/infiniband/{}", self.raw.name());
        if std::fs::exists(format!("{class}/parent")).unwrap_or(false) {
            return Model::SoftRoce;
        }
        let driver = std::fs::read_link(format!("{class}/device/driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Model::Adapter(driver.unwrap_or_else(|| format!("vendor {:#x}", limits.vendor_id)))
    }
}

/// Where a device departs from the specification in a way that a backend can make up for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// What the contract knows and the device has not, whatever it says of itself.
    pub lacks: Caps,
    /// A transport retry count of 7 is for ever: six is the most that ends (`rxe_comp.c` of Linux 6.1).
    pub seven_retries_are_endless: bool,
    /// Receives posted to a queue pair in error are flushed only once it is moved to the error state again: the post
    /// does not reach the driver.
    pub late_receives_need_a_push: bool,
}

impl Default for Quirks {
    fn default() -> Quirks {
        Quirks { lacks: Caps::empty(), seven_retries_are_endless: false, late_receives_need_a_push: false }
    }
}

/// What is known of a device beyond what it says of itself.
enum Model {
    SoftRoce,
    Adapter(String),
}

/// How the names of the drivers begin that raise `IB_EVENT_SQ_DRAINED` (mlx4, hns and qedr of Linux), by the network driver beneath.
const DRAINS: [&str; 3] = ["mlx4", "hns", "qed"];

impl Model {
    fn quirks(&self) -> Quirks {
        match self {
            // It raises no such event, and never says that it has drained (Linux 6.1).
            Model::SoftRoce => Quirks {
                lacks: Caps::QP_EVENTS | Caps::SQD,
                seven_retries_are_endless: true,
                late_receives_need_a_push: true,
            },
            // These raise the event of a drained queue. bnxt_re and irdma do not, and who waits for it would wait for ever; mlx5's driver
            // has no way from RTS to SQD (`__mlx5_ib_modify_qp` of Linux: EINVAL).
            Model::Adapter(driver) if DRAINS.iter().any(|name| driver.starts_with(name)) => Quirks::default(),
            Model::Adapter(_) => Quirks { lacks: Caps::SQD, ..Quirks::default() },
        }
    }
}

impl Device<Hw> for HwDevice {
    fn name(&self) -> &str {
        self.raw.name()
    }

    fn open(&self) -> Result<HwContext> {
        check_transport(self.raw.transport())?;
        let raw = Rc::new(self.raw.open()?);
        let limits = raw.limits()?;
        let reactor = Reactor::new()?;
        let hint = reactor.watch(raw.async_fd())?;
        let model = self.model(&limits);
        let ports: Vec<_> = (1..=limits.ports).map(|port| raw.port(port)).collect::<Result<_>>()?;
        let inner = ContextInner {
            device: self.clone(),
            limits,
            quirks: model.quirks(),
            model,
            links: ports.iter().map(|port| link_layer_of(port.link_layer)).collect(),
            max_msg: largest_message(ports.iter().map(|port| port.max_msg_sz)),
            inline: OnceCell::new(),
            ledgers: RefCell::default(),
            cqs: RefCell::default(),
            next_id: Cell::new(1),
            managers: RefCell::default(),
            unconfirmed: Cell::new(false),
            peers: RefCell::default(),
            port: Cell::new(1),
            gid: Cell::new(None),
            found_address: FoundAddress::default(),
            removal: Removal::default(),
            troubles: RefCell::default(),
            host: HwHost::new()?,
            store: self.store.borrow().clone(),
            disk: RefCell::default(),
            hint,
            reactor,
            raw,
        };
        let inner = Rc::new(inner);
        let mut open = self.open.borrow_mut();
        open.retain(|context| context.strong_count() > 0);
        open.push(Rc::downgrade(&inner));
        Ok(HwContext(inner))
    }
}

/// An open device.
#[derive(Clone)]
pub struct HwContext(pub(crate) Rc<ContextInner>);

impl fmt::Debug for HwContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwContext").field(&self.0.device.name()).finish()
    }
}

pub(crate) struct ContextInner {
    pub device: HwDevice,
    pub limits: DeviceLimits,
    model: Model,
    pub quirks: Quirks,
    /// Each port's link layer.
    links: Vec<LinkLayer>,
    /// The longest message that each port carries.
    pub max_msg: u32,
    /// The most inline data of a request, once somebody has asked for it.
    pub inline: OnceCell<u32>,
    pub ledgers: RefCell<Ledgers>,
    /// For events about them.
    cqs: RefCell<BTreeMap<u32, Weak<CqHandle>>>,
    next_id: Cell<u32>,
    pub managers: RefCell<Vec<Weak<Manager>>>,
    /// Whether they have accepted connections of which no confirmation may have come.
    pub unconfirmed: Cell<bool>,
    /// Machines by the names that protocols use.
    peers: RefCell<BTreeMap<String, IpAddr>>,
    /// The port, and which of its GIDs, if somebody has chosen.
    pub port: Cell<u8>,
    pub gid: Cell<Option<u8>>,
    pub found_address: FoundAddress,
    pub removal: Removal,
    /// Why peers could not be reached: what the contract's events have no room for.
    troubles: RefCell<Troubles>,
    host: HwHost,
    /// What the machine's disk has, and the disk once somebody has asked for it.
    store: Option<Arc<Objects>>,
    disk: RefCell<Option<Rc<Calls>>>,
    /// Whether the adapter may have said something.
    hint: Hint,
    pub reactor: Reactor,
    /// Last, so that it is dropped last.
    pub raw: Rc<ffi::Context>,
}

/// Whether the device is gone, which is told once. Two sources know it: its own event, which comes from drivers that can let go of an
/// open context, and the connection manager's.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    noticed: Cell<bool>,
    told: Cell<bool>,
}

impl Removal {
    pub(crate) fn notice(&self) {
        self.noticed.set(true);
    }

    /// Whether it is to be told now.
    fn is_news(&self) -> bool {
        self.noticed.get() && !self.told.replace(true)
    }
}

/// What could not be reached and why, each thing once and how often, the last one last.
#[derive(Default)]
struct Troubles(VecDeque<(String, u64)>);

impl Troubles {
    /// The most that are kept for who takes them.
    const MOST: usize = 64;

    fn add(&mut self, text: String) {
        let known = self.0.iter().position(|(known, _)| *known == text).and_then(|at| self.0.remove(at));
        if self.0.len() == Troubles::MOST {
            self.0.pop_front();
        }
        self.0.push_back((text, known.map_or(0, |(_, times)| times) + 1));
    }
}

/// The largest message of a device whose ports have these. No connection carries more than 2 GiB (IBA 9.7.1), and some providers
/// cannot tell so much.
fn largest_message(ports: impl Iterator<Item = u32>) -> u32 {
    ports.fold(i32::MAX as u32, u32::min)
}

/// Who has told no address cannot be reached: to ask a resolver may block.
pub(crate) const NO_ADDRESS: &str = "nobody told the address of a machine of that name";

/// The address of a machine: the one that was told of its name, or its name, which is an address in digits.
fn known(peers: &BTreeMap<String, IpAddr>, node: &str) -> Option<IpAddr> {
    peers.get(node).copied().or_else(|| node.parse().ok())
}

impl ContextInner {
    /// A number for an object that events name.
    pub(crate) fn fresh_id(&self) -> u32 {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        id
    }

    pub(crate) fn enlist_cq(&self, id: u32, cq: &Rc<CqHandle>) {
        self.cqs.borrow_mut().insert(id, Rc::downgrade(cq));
    }

    pub(crate) fn delist_cq(&self, id: u32) {
        self.cqs.borrow_mut().remove(&id);
    }

    /// Whether any completion queue holds something that was not polled.
    pub(crate) fn has_completions(&self) -> bool {
        let cqs = self.cqs.borrow();
        cqs.values().filter_map(Weak::upgrade).any(|cq| cq.has_completions())
    }

    /// A port's link layer; a port that is not there is refused.
    pub(crate) fn link(&self, port: u8) -> Result<LinkLayer> {
        let index = usize::from(port).checked_sub(1);
        let link = index.and_then(|index| self.links.get(index));
        link.copied().ok_or(VerbsError::Invalid("there is no such port"))
    }

    /// An address vector for packets on a path.
    pub(crate) fn vector(&self, path: &Path) -> Result<Vector> {
        let link = self.link(path.port)?;
        Ok(vector(path, link, requires_header(self.raw.port(path.port)?.flags)))
    }

    pub(crate) fn caps(&self) -> Caps {
        let mut caps = Caps::BROUGHT_MEMORY
            | Caps::UD
            | Caps::CQ_RESIZE
            | Caps::SOLICITED
            | Caps::SQD
            | Caps::OUT_OF_BAND
            | Caps::QP_EVENTS;
        caps.set(Caps::DISK, self.store.is_some());
        caps.set(Caps::ATOMICS, self.limits.atomics);
        caps.set(Caps::SRQ, self.limits.max_srq > 0);
        caps.set(Caps::MULTI_PORT, self.limits.ports > 1);
        // Ethernet carries no migration request: whatever a RoCE device advertises, it does not migrate.
        let infiniband = self.links.iter().all(|link| *link == LinkLayer::InfiniBand);
        caps.set(Caps::APM, infiniband && self.limits.says_apm());
        caps - self.quirks.lacks
    }

    /// The address of a machine, by the name that protocols use, or by itself.
    pub(crate) fn lookup(&self, node: &str) -> Option<IpAddr> {
        known(&self.peers.borrow(), node)
    }

    pub(crate) fn attr(&self) -> DeviceAttr {
        let limits = &self.limits;
        let byte = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        DeviceAttr {
            node_guid: self.device.guid(),
            model: match &self.model {
                Model::SoftRoce => "Soft-RoCE (rdma_rxe)".to_string(),
                Model::Adapter(driver) => driver.clone(),
            },
            caps: self.caps(),
            ports: limits.ports,
            max_qp: limits.max_qp,
            max_qp_wr: limits.max_qp_wr,
            max_sge: limits.max_sge.min(SendBatch::MAX_SGE),
            max_inline: self.max_inline(),
            max_cq: limits.max_cq,
            max_cqe: limits.max_cqe,
            max_mr: limits.max_mr,
            max_mr_size: limits.max_mr_size,
            max_msg: self.max_msg,
            max_dest_rd_atomic: byte(limits.max_dest_rd_atomic),
            max_rd_atomic: byte(limits.max_rd_atomic),
            max_srq: limits.max_srq,
            max_srq_wr: limits.max_srq_wr,
        }
    }

    pub(crate) fn trouble(&self, text: String) {
        self.troubles.borrow_mut().add(text);
    }
}

impl HwContext {
    /// Tells the context the address of a machine by the name that protocols use. Other names are addresses themselves: nothing is
    /// looked up, since that may block.
    pub fn name_peer(&self, name: &str, address: IpAddr) {
        self.0.peers.borrow_mut().insert(name.to_string(), address);
    }

    /// Takes what is known about peers that could not be reached: who and why, a sentence each, and how often, the last one last. Of what
    /// nobody takes there are the last 64 that differ.
    pub fn take_troubles(&self) -> Vec<(String, u64)> {
        self.0.troubles.take().0.into()
    }

    /// The port in use.
    pub fn port(&self) -> u8 {
        self.0.port.get()
    }

    /// Takes what connection managers have to do by themselves a step further: the answer of a peer is answered. A node
    /// does so whenever it asks for events; this is for those who wait for something else.
    #[cfg(feature = "suite")]
    pub fn make_progress(&self) {
        let managers: Vec<_> = self.0.managers.borrow().iter().filter_map(Weak::upgrade).collect();
        managers.iter().for_each(|manager| manager.make_progress());
    }

    /// The device's name.
    pub fn device_name(&self) -> &str {
        self.0.device.name()
    }
}

impl Context<Hw> for HwContext {
    fn device_attr(&self) -> DeviceAttr {
        self.0.attr()
    }

    fn port_attr(&self, port: u8) -> Result<PortAttr> {
        let link_layer = self.0.link(port)?;
        let raw = self.0.raw.port(port)?;
        Ok(PortAttr {
            state: port_state_of(raw.state),
            link_layer,
            max_mtu: mtu_of(raw.max_mtu),
            active_mtu: mtu_of(raw.active_mtu),
            lid: raw.lid,
            gids: u8::try_from(raw.gid_tbl_len).unwrap_or(u8::MAX),
            bits_per_second: bits_per_second(raw.active_width, raw.active_speed, link_layer),
        })
    }

    fn gid(&self, port: u8, index: u8) -> Result<Gid> {
        let gids = self.port_attr(port)?.gids;
        if index >= gids {
            let bound = u64::from(gids.saturating_sub(1));
            return Err(VerbsError::TooLarge { what: "the index of the GID", value: index.into(), bound });
        }
        Ok(Gid(self.0.raw.gid(port, index)?))
    }

    fn alloc_pd(&self) -> Result<HwPd> {
        HwPd::alloc(self)
    }

    fn create_channel(&self) -> Result<HwChannel> {
        HwChannel::create(self)
    }

    fn create_cq(&self, cqe: u32, channel: Option<&HwChannel>) -> Result<HwCq> {
        HwCq::create(self, cqe, channel)
    }

    fn async_event(&self) -> Option<AsyncEvent> {
        let removal = &self.0.removal;
        loop {
            if removal.is_news() {
                return Some(AsyncEvent::DeviceFatal);
            }
            let raw = self.0.hint.ask(|| self.0.raw.async_event())?;
            match async_event(raw.event, raw.object) {
                AsyncEvent::DeviceFatal => removal.notice(),
                AsyncEvent::CqError(CqId(id)) => {
                    if let Some(cq) = self.0.cqs.borrow().get(&id).and_then(Weak::upgrade) {
                        cq.overran();
                    }
                    return Some(AsyncEvent::CqError(CqId(id)));
                }
                event => return Some(event),
            }
        }
    }

    fn connection_manager(&self) -> Result<HwCm> {
        HwCm::create(self)
    }

    fn out_of_band(&self) -> Result<HwOob> {
        Ok(HwOob::new(self))
    }

    fn disk(&self) -> Result<HwDisk> {
        let objects = self.0.store.as_ref().ok_or(VerbsError::Unsupported(Caps::DISK))?;
        let mut disk = self.0.disk.borrow_mut();
        if disk.is_none() {
            *disk = Some(Calls::start(Arc::clone(objects), &self.0.reactor)?);
        }
        let calls = disk.as_ref().map(Rc::clone).ok_or(VerbsError::Unsupported(Caps::DISK))?;
        Ok(HwDisk::new(calls, Rc::clone(&self.0)))
    }

    fn host(&self) -> HwHost {
        self.0.host.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_claims_no_state_that_its_driver_cannot_reach_or_does_not_tell_of() {
        let lacks = |driver: &str| Model::Adapter(driver.to_string()).quirks().lacks;
        for driver in ["mlx5_core", "bnxt_en", "ice", "i40e", "vendor 0x1"] {
            assert_eq!(lacks(driver), Caps::SQD, "{driver}");
        }
        for driver in ["mlx4_core", "hns3", "hns_roce", "qede"] {
            assert_eq!(lacks(driver), Caps::empty(), "{driver}");
        }
        assert_eq!(Model::SoftRoce.quirks().lacks, Caps::SQD | Caps::QP_EVENTS);
    }

    #[test]
    fn that_a_device_is_gone_is_told_once_however_often_it_is_noticed() {
        let removal = Removal::default();
        assert!(!removal.is_news());
        (0..3).for_each(|_| removal.notice());
        assert!(removal.is_news());
        removal.notice();
        assert!(!removal.is_news());
    }

    #[test]
    fn a_machine_is_found_by_what_was_told_of_it_or_by_its_address_and_nobody_is_asked() {
        let told = BTreeMap::from([("n1".to_string(), IpAddr::from([10, 0, 0, 1]))]);
        assert_eq!(known(&told, "n1"), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(known(&told, "10.0.0.2"), Some(IpAddr::from([10, 0, 0, 2])));
        assert_eq!(known(&told, "localhost"), None);
    }

    #[test]
    fn troubles_that_nobody_takes_are_bounded_and_the_last_one_is_there() {
        let mut troubles = Troubles::default();
        (0..1_000).for_each(|number| troubles.add(number.to_string()));
        let known = |text: &str, times| (text.to_string(), times);
        assert_eq!((troubles.0.len(), troubles.0.back()), (Troubles::MOST, Some(&known("999", 1))));
        troubles.add("990".to_string());
        assert_eq!(troubles.0.len(), Troubles::MOST, "what is known is not told twice");
        let last: Vec<_> = troubles.0.into_iter().skip(Troubles::MOST - 2).collect();
        assert_eq!(last, [known("999", 1), known("990", 2)]);
    }

    #[test]
    fn the_largest_message_is_one_that_every_port_carries_and_a_request_can_tell() {
        assert_eq!(largest_message([1 << 30, 1 << 23].into_iter()), 1 << 23);
        assert_eq!(largest_message([u32::MAX].into_iter()), (1 << 31) - 1);
    }
}

//! A machine as a device: its address, its disk, and nothing of an adapter.

use crate::disk::{Calls, TcpDisk};
use crate::host::TcpHost;
use crate::oob::TcpOob;
use crate::reactor::Reactor;
use crate::{NoCm, NoQueue, Tcp, TcpPd, no_adapter};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use weft_store::Objects;
use weft_verbs::{AsyncEvent, Caps, Context, Device, DeviceAttr, Gid, Nanos, PortAttr, Result, VerbsError};

/// A machine that can be opened. It has an address and maybe a disk.
#[derive(Clone)]
pub struct TcpDevice {
    address: Option<IpAddr>,
    store: Option<Arc<Objects>>,
    opened: Rc<RefCell<Vec<Weak<Inner>>>>,
}

impl fmt::Debug for TcpDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpDevice").field("address", &self.address).finish_non_exhaustive()
    }
}

impl TcpDevice {
    /// This machine: streams come in by one of its addresses, or by all of them. Its disk is a store, if there is one.
    pub fn new(address: Option<IpAddr>, store: Option<Arc<Objects>>) -> TcpDevice {
        TcpDevice { address, store, opened: Rc::default() }
    }

    /// What was opened of it, by whatever clone, and is in use.
    pub fn open_contexts(&self) -> Vec<TcpContext> {
        self.opened.borrow().iter().filter_map(Weak::upgrade).map(TcpContext).collect()
    }
}

impl Device<Tcp> for TcpDevice {
    fn name(&self) -> &str {
        "tcp"
    }

    fn open(&self) -> Result<TcpContext> {
        let context = TcpContext::open(self.address, self.store.clone())?;
        let mut opened = self.opened.borrow_mut();
        opened.retain(|context| context.strong_count() > 0);
        opened.push(Rc::downgrade(&context.0));
        Ok(context)
    }
}

/// A machine that runs one node.
#[derive(Clone)]
pub struct TcpContext(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) reactor: Reactor,
    /// By which address streams come in.
    pub(crate) address: IpAddr,
    peers: RefCell<BTreeMap<String, IpAddr>>,
    disk: Option<Rc<Calls>>,
    host: TcpHost,
}

impl Inner {
    /// The address of a machine, by the name that protocols use, or by itself.
    pub(crate) fn lookup(&self, node: &str) -> Option<IpAddr> {
        self.peers.borrow().get(node).copied().or_else(|| node.parse().ok())
    }
}

impl fmt::Debug for TcpContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpContext").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl TcpContext {
    /// This machine, as [`TcpDevice::new`] has it.
    ///
    /// # Errors
    ///
    /// The operating system has no descriptors or threads left.
    pub fn open(address: Option<IpAddr>, store: Option<Arc<Objects>>) -> Result<TcpContext> {
        let reactor = Reactor::new()?;
        let disk = store.map(|store| Calls::start(store, reactor.bell()?)).transpose()?;
        Ok(TcpContext(Rc::new(Inner {
            reactor,
            address: address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            peers: RefCell::default(),
            disk,
            host: TcpHost::new()?,
        })))
    }

    /// Tells the address of a machine by the name that protocols use. Other names are addresses themselves: nothing is looked up, since
    /// that may block.
    pub fn name_peer(&self, name: &str, address: IpAddr) {
        self.0.peers.borrow_mut().insert(name.to_string(), address);
    }

    /// Waits until something is ready, at most so long, and wakes the tasks whose streams are ready or whose disk calls have ended.
    /// Whether anything was.
    pub(crate) fn look(&self, span: Option<Nanos>) -> bool {
        let any = self.0.reactor.wait(span);
        self.0.disk.iter().for_each(|calls| calls.collect());
        any
    }

    /// Looks once, without waiting, where no [driver](crate::Driver) does: what is taken here steps no node.
    pub fn make_progress(&self) {
        self.look(Some(Nanos::ZERO));
    }
}

impl Context<Tcp> for TcpContext {
    fn device_attr(&self) -> DeviceAttr {
        let disk = if self.0.disk.is_some() { Caps::DISK } else { Caps::empty() };
        DeviceAttr {
            node_guid: 0,
            model: "none: byte streams".to_string(),
            caps: Caps::OUT_OF_BAND | disk,
            ports: 0,
            max_qp: 0,
            max_qp_wr: 0,
            max_sge: 0,
            max_inline: 0,
            max_cq: u32::MAX,
            max_cqe: u32::MAX,
            max_mr: u32::MAX,
            max_mr_size: isize::MAX as u64,
            max_msg: 0,
            max_dest_rd_atomic: 0,
            max_rd_atomic: 0,
            max_srq: 0,
            max_srq_wr: 0,
        }
    }

    fn port_attr(&self, _port: u8) -> Result<PortAttr> {
        no_adapter()
    }

    fn gid(&self, _port: u8, _index: u8) -> Result<Gid> {
        no_adapter()
    }

    fn alloc_pd(&self) -> Result<TcpPd> {
        Ok(TcpPd(()))
    }

    fn create_channel(&self) -> Result<NoQueue> {
        Ok(NoQueue { capacity: 0 })
    }

    fn create_cq(&self, cqe: u32, _channel: Option<&NoQueue>) -> Result<NoQueue> {
        Ok(NoQueue { capacity: cqe })
    }

    fn async_event(&self) -> Option<AsyncEvent> {
        None
    }

    fn connection_manager(&self) -> Result<NoCm> {
        Ok(NoCm)
    }

    fn out_of_band(&self) -> Result<TcpOob> {
        Ok(TcpOob::new(self))
    }

    fn disk(&self) -> Result<TcpDisk> {
        let calls = self.0.disk.as_ref().ok_or(VerbsError::Unsupported(Caps::DISK))?;
        Ok(TcpDisk::new(Rc::clone(calls)))
    }

    fn host(&self) -> TcpHost {
        self.0.host.clone()
    }
}

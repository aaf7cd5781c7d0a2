//! `librdmacm`: event channels and identities. Queue pairs stay outside of it: it opens devices of its own, and a
//! queue pair of ours cannot be made in them.

use super::os::{RawAddress, set_nonblocking};
use super::qp::Vector;
use super::{errno, refused};
use crate::census::{Counted, Kind};
use rdma_sys as sys;
use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::{Result, VerbsError};

/// Where events of identities arrive.
pub(crate) struct CmChannel {
    ptr: NonNull<sys::rdma_event_channel>,
    _counted: Counted,
}

impl CmChannel {
    pub(crate) fn create() -> Result<CmChannel> {
        // SAFETY: takes no argument.
        let ptr = unsafe { sys::rdma_create_event_channel() };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused_by_cm("rdma_create_event_channel", errno()))?;
        let channel = CmChannel { ptr, _counted: Counted::new(Kind::CmChannel) };
        set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, and closes its descriptor as it is destroyed; the field does not change.
        unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).fd) }
    }
}

impl Drop for CmChannel {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; identities on it hold this value and are gone.
        unsafe { sys::rdma_destroy_event_channel(self.ptr.as_ptr()) };
    }
}

/// What happened, by `rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    AddrResolved,
    RouteResolved,
    ConnectRequest,
    ConnectResponse,
    Established,
    Disconnected,
    Rejected,
    /// It came to nothing.
    Failed(Failing),
    DeviceRemoval,
    /// Nothing that the contract has a word for.
    Other(u32),
}

/// At what an attempt has failed: each has remedies of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// At the way to the address: over Ethernet no neighbour says that it is its own.
    Address,
    /// At the route: over InfiniBand the subnet manager does not know one, or does not answer.
    Route,
    /// At the answer: what is asked, or answered, is not.
    Answer,
    /// At this side's part.
    Connection,
}

impl EventKind {
    fn of(number: u32) -> EventKind {
        use sys::rdma_cm_event_type::*;
        match number {
            RDMA_CM_EVENT_ADDR_RESOLVED => EventKind::AddrResolved,
            RDMA_CM_EVENT_ROUTE_RESOLVED => EventKind::RouteResolved,
            RDMA_CM_EVENT_CONNECT_REQUEST => EventKind::ConnectRequest,
            RDMA_CM_EVENT_CONNECT_RESPONSE => EventKind::ConnectResponse,
            RDMA_CM_EVENT_ESTABLISHED => EventKind::Established,
            RDMA_CM_EVENT_DISCONNECTED => EventKind::Disconnected,
            RDMA_CM_EVENT_REJECTED => EventKind::Rejected,
            RDMA_CM_EVENT_ADDR_ERROR => EventKind::Failed(Failing::Address),
            RDMA_CM_EVENT_ROUTE_ERROR => EventKind::Failed(Failing::Route),
            RDMA_CM_EVENT_UNREACHABLE => EventKind::Failed(Failing::Answer),
            RDMA_CM_EVENT_CONNECT_ERROR => EventKind::Failed(Failing::Connection),
            RDMA_CM_EVENT_DEVICE_REMOVAL => EventKind::DeviceRemoval,
            other => EventKind::Other(other),
        }
    }
}

/// An event, copied out and acknowledged.
pub(crate) struct CmMessage {
    pub kind: EventKind,
    /// The key of the identity that it is about; of the listener, where it is a request.
    pub key: u64,
    /// The new identity of a request.
    pub request: Option<CmIdentity>,
    /// The reject reason, or an errno.
    pub status: i32,
    pub private: Vec<u8>,
    /// The most reads and atomics that we may have in flight, as the peer serves them.
    pub initiator_depth: u8,
}

/// What a side brings into a connection.
pub(crate) struct ConnectionOffer<'a> {
    pub private: &'a [u8],
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry: u8,
    pub rnr_retry: u8,
    pub qp: u32,
}

impl ConnectionOffer<'_> {
    fn raw(&self) -> sys::rdma_conn_param {
        sys::rdma_conn_param {
            private_data: self.private.as_ptr().cast(),
            private_data_len: self.private.len() as u8,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 1,
            retry_count: self.retry,
            rnr_retry_count: self.rnr_retry,
            srq: 0,
            qp_num: self.qp,
        }
    }
}

/// A connection, an attempt, or a listener.
pub(crate) struct CmIdentity {
    ptr: NonNull<sys::rdma_cm_id>,
    _channel: Rc<CmChannel>,
    _counted: Counted,
}

impl CmIdentity {
    /// `key` names the identity in events.
    pub(crate) fn create(channel: &Rc<CmChannel>, key: u64) -> Result<CmIdentity> {
        let mut id = std::ptr::null_mut();
        let space = sys::rdma_port_space::RDMA_PS_TCP;
        // SAFETY: the channel lives, the place is valid, and the key is a number that is never dereferenced.
        let answer = unsafe { sys::rdma_create_id(channel.ptr.as_ptr(), &mut id, key as *mut libc::c_void, space) };
        done("rdma_create_id", answer)?;
        let ptr = NonNull::new(id).ok_or(VerbsError::DeviceGone)?;
        Ok(CmIdentity { ptr, _channel: Rc::clone(channel), _counted: Counted::new(Kind::CmId) })
    }

    /// Names a new identity: an incoming request has its listener's name at first.
    pub(crate) fn rename(&self, key: u64) {
        // SAFETY: the identity lives; `context` is the application's own field.
        unsafe { (*self.ptr.as_ptr()).context = key as *mut libc::c_void };
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> Result<()> {
        let mut raw = RawAddress::new(address);
        // SAFETY: the identity lives and the address is whole, by its family.
        done("rdma_bind_addr", unsafe { sys::rdma_bind_addr(self.ptr.as_ptr(), raw.as_ptr().cast()) })
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        // SAFETY: the identity lives.
        done("rdma_listen", unsafe { sys::rdma_listen(self.ptr.as_ptr(), backlog) })
    }

    /// Begins to look for a peer, from a local address if it is given.
    pub(crate) fn resolve_addr(&self, from: Option<SocketAddr>, to: SocketAddr, millis: i32) -> Result<()> {
        let mut from = from.map(RawAddress::new);
        let from = from.as_mut().map_or(std::ptr::null_mut(), RawAddress::as_ptr).cast();
        let mut to = RawAddress::new(to);
        // SAFETY: the identity lives and the addresses are whole; a null source is allowed.
        done("rdma_resolve_addr", unsafe {
            sys::rdma_resolve_addr(self.ptr.as_ptr(), from, to.as_ptr().cast(), millis)
        })
    }

    pub(crate) fn resolve_route(&self, millis: i32) -> Result<()> {
        // SAFETY: the identity lives.
        done("rdma_resolve_route", unsafe { sys::rdma_resolve_route(self.ptr.as_ptr(), millis) })
    }

    pub(crate) fn connect(&self, offer: &ConnectionOffer<'_>) -> Result<()> {
        // SAFETY: the identity lives; the offer's bytes live for the call, which copies them.
        done("rdma_connect", unsafe { sys::rdma_connect(self.ptr.as_ptr(), &mut offer.raw()) })
    }

    pub(crate) fn accept(&self, offer: &ConnectionOffer<'_>) -> Result<()> {
        // SAFETY: as in `connect`.
        done("rdma_accept", unsafe { sys::rdma_accept(self.ptr.as_ptr(), &mut offer.raw()) })
    }

    /// Completes the active side's part, once its queue pair is ready.
    pub(crate) fn establish(&self) -> Result<()> {
        // SAFETY: the identity lives.
        done("rdma_establish", unsafe { sys::rdma_establish(self.ptr.as_ptr()) })
    }

    /// Says that the peer has sent something over the queue pair of a connection that was accepted: so it has the answer, and the
    /// connection stands. Refused where that is known already.
    pub(crate) fn communicates(&self) -> Result<()> {
        // SAFETY: the identity lives.
        done("rdma_notify", unsafe {
            sys::rdma_notify(self.ptr.as_ptr(), sys::ibv_event_type::IBV_EVENT_COMM_EST)
        })
    }

    pub(crate) fn reject(&self, private: &[u8]) -> Result<()> {
        // SAFETY: the identity lives; the bytes live for the call, which copies them.
        done("rdma_reject", unsafe {
            sys::rdma_reject(self.ptr.as_ptr(), private.as_ptr().cast(), private.len() as u8)
        })
    }

    pub(crate) fn disconnect(&self) -> Result<()> {
        // SAFETY: the identity lives.
        done("rdma_disconnect", unsafe { sys::rdma_disconnect(self.ptr.as_ptr()) })
    }

    /// The port that the identity is bound to, from 1; 0 before it is.
    pub(crate) fn port(&self) -> u8 {
        // SAFETY: the identity lives; the library writes the field when it processes an event, on this thread.
        unsafe { (*self.ptr.as_ptr()).port_num }
    }

    /// The name of the device that the identity is bound to.
    pub(crate) fn device(&self) -> Option<String> {
        // SAFETY: the identity lives; `verbs` is null or an open context, whose device has a name that is a C string.
        unsafe {
            let verbs = NonNull::new((*self.ptr.as_ptr()).verbs)?;
            let name = sys::ibv_get_device_name((*verbs.as_ptr()).device);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// The address of the peer; none before it is known.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        // SAFETY: the identity lives; the library writes the field when it processes an event, on this thread. The field has room for
        // addresses of all families, and is zero or begins with one.
        let raw = unsafe {
            let field = &raw const (*self.ptr.as_ptr()).route.addr.dst_addr_union;
            field.cast::<RawAddress>().read()
        };
        raw.ip()
    }

    /// Attributes for its queue pair in a state (one of `rdma_sys::ibv_qp_state`): path, numbers, time-outs.
    pub(crate) fn path(&self, state: u32) -> Result<RawPath> {
        let mut attr = std::mem::MaybeUninit::<sys::ibv_qp_attr>::zeroed();
        let mut mask = 0;
        // SAFETY: the identity lives, the attributes are zeroed and name the state that they are asked for.
        unsafe {
            (*attr.as_mut_ptr()).qp_state = state;
            let answer = sys::rdma_init_qp_attr(self.ptr.as_ptr(), attr.as_mut_ptr(), &mut mask);
            done("rdma_init_qp_attr", answer)?;
        }
        // SAFETY: zeroed and filled by the call; all fields are integers.
        let a = unsafe { attr.assume_init() };
        // SAFETY: 16 bytes under every view of the union.
        let dgid = unsafe { a.ah_attr.grh.dgid.raw };
        let to = Vector {
            dgid,
            dlid: a.ah_attr.dlid,
            sgid_index: a.ah_attr.grh.sgid_index,
            port: a.ah_attr.port_num,
            sl: a.ah_attr.sl,
            traffic_class: a.ah_attr.grh.traffic_class,
            hop_limit: a.ah_attr.grh.hop_limit,
            global: a.ah_attr.is_global != 0,
            static_rate: a.ah_attr.static_rate,
            source_path_bits: a.ah_attr.src_path_bits,
        };
        Ok(RawPath {
            to,
            mtu: a.path_mtu,
            dest_qp: a.dest_qp_num,
            rq_psn: a.rq_psn,
            sq_psn: a.sq_psn,
        })
    }
}

/// What the connection manager found out about a connection's path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPath {
    pub to: Vector,
    pub mtu: u32,
    pub dest_qp: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
}

impl Drop for CmIdentity {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; every event taken was acknowledged at once, so the call does not
        // wait, and events not taken yet vanish with it.
        unsafe { sys::rdma_destroy_id(self.ptr.as_ptr()) };
    }
}

/// For calls that answer 0, or -1 with an errno.
fn done(call: &'static str, answer: i32) -> Result<()> {
    if answer == 0 { Ok(()) } else { Err(refused_by_cm(call, errno())) }
}

/// What an errno of a call of `librdmacm` means in the contract. ENODEV says there that an address is on no RDMA device
/// (`cma_acquire_dev_by_src_ip` of Linux): no device is gone for that.
pub(crate) fn refused_by_cm(call: &'static str, errno: i32) -> VerbsError {
    match errno {
        libc::ENODEV => VerbsError::Os { call, errno },
        other => refused(call, other),
    }
}

impl CmChannel {
    /// Takes and acknowledges the oldest event.
    pub(crate) fn event(self: &Rc<Self>) -> Option<CmMessage> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the channel lives, the place is valid, and the descriptor does not block.
        if unsafe { sys::rdma_get_cm_event(self.ptr.as_ptr(), &mut event) } != 0 {
            return None;
        }
        // SAFETY: the call succeeded, so that it made an event, which is ours until the acknowledgement below. The
        // event's type is an integer in these bindings.
        let (kind, status, id, listener) =
            unsafe { (EventKind::of((*event).event), (*event).status, (*event).id, (*event).listen_id) };
        let named = if kind == EventKind::ConnectRequest { listener } else { id };
        // SAFETY: identities named by an event that is not acknowledged live.
        let key = unsafe { (*named).context as u64 };
        // SAFETY: all identities here are of the connected kind (RDMA_PS_TCP), for which `conn` is the valid member.
        let conn = unsafe { (*event).param.conn };
        let private = if conn.private_data.is_null() {
            Vec::new()
        } else {
            // SAFETY: the event's own buffer, of the length that it states.
            unsafe { std::slice::from_raw_parts(conn.private_data.cast::<u8>(), conn.private_data_len.into()) }
                .to_vec()
        };
        let request = (kind == EventKind::ConnectRequest).then(|| CmIdentity {
            ptr: NonNull::new(id).expect("a request has an identity"),
            _channel: Rc::clone(self),
            _counted: Counted::new(Kind::CmId),
        });
        // SAFETY: acknowledged once; nothing refers to the event any more.
        unsafe { sys::rdma_ack_cm_event(event) };
        Some(CmMessage { kind, key, request, status, private, initiator_depth: conn.initiator_depth })
    }
}

//! Devices, and the context in which one is open.

use super::os::set_nonblocking;
use super::{errno, refused, zero};
use crate::census::{Counted, Kind};
use rdma_sys as sys;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::Result;

/// The list that `ibv_get_device_list` made. Devices in it are valid until it is freed.
struct List(NonNull<*mut sys::ibv_device>);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `ibv_get_device_list` and is freed once, here. Contexts opened from its
        // devices hold references of their own (`ibv_open_device(3)`).
        unsafe { sys::ibv_free_device_list(self.0.as_ptr()) }
    }
}

/// A device of the machine.
#[derive(Clone)]
pub(crate) struct Device {
    ptr: NonNull<sys::ibv_device>,
    name: Rc<str>,
    guid: u64,
    /// One of `rdma_sys::ibv_transport_type`.
    transport: i32,
    _list: Rc<List>,
}

/// The machine's devices. Without `ib_uverbs` in the kernel, or without a device, there are none.
pub(crate) fn devices() -> Result<Vec<Device>> {
    let mut count = 0;
    // SAFETY: the argument is a valid place for the number of devices.
    let list = unsafe { sys::ibv_get_device_list(&mut count) };
    let Some(list) = NonNull::new(list) else {
        return match errno() {
            // No kernel support, or no class of such devices: there is no device (observed as ENOSYS).
            libc::ENOSYS | libc::ENODEV | libc::ENOENT => Ok(Vec::new()),
            other => Err(refused("ibv_get_device_list", other)),
        };
    };
    let list = Rc::new(List(list));
    let each = (0..count as usize).filter_map(|n| {
        // SAFETY: the list has `count` entries, followed by a null.
        let ptr = NonNull::new(unsafe { *list.0.as_ptr().add(n) })?;
        // SAFETY: the device lives as long as its list; its name is a C string inside of it.
        let name = unsafe { CStr::from_ptr(sys::ibv_get_device_name(ptr.as_ptr())) };
        // SAFETY: as above.
        let guid = u64::from_be(unsafe { sys::ibv_get_device_guid(ptr.as_ptr()) });
        // SAFETY: as above; the field does not change, and is an integer in these bindings.
        let transport = unsafe { (*ptr.as_ptr()).transport_type };
        Some(Device { ptr, name: name.to_string_lossy().into(), guid, transport, _list: Rc::clone(&list) })
    });
    Ok(each.collect())
}

impl Device {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn guid(&self) -> u64 {
        self.guid
    }

    pub(crate) fn transport(&self) -> i32 {
        self.transport
    }

    pub(crate) fn open(&self) -> Result<Context> {
        // SAFETY: the device is valid, for its list lives.
        let ptr = unsafe { sys::ibv_open_device(self.ptr.as_ptr()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_open_device", errno()))?;
        let context = Context { ptr, _counted: Counted::new(Kind::Context) };
        set_nonblocking(context.async_fd())?;
        Ok(context)
    }
}

/// An open device.
pub(crate) struct Context {
    pub(super) ptr: NonNull<sys::ibv_context>,
    _counted: Counted,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `Device::open`, closed once; every object made in it holds this value and is gone.
        unsafe { sys::ibv_close_device(self.ptr.as_ptr()) };
    }
}

/// What `ibv_query_device` says, as far as the contract asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLimits {
    pub vendor_id: u32,
    pub flags: u32,
    pub atomics: bool,
    pub ports: u8,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub max_sge: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_mr_size: u64,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_dest_rd_atomic: u32,
    pub max_rd_atomic: u32,
}

impl DeviceLimits {
    /// The device says that it migrates paths (`IBV_DEVICE_AUTO_PATH_MIG`).
    pub(crate) fn says_apm(&self) -> bool {
        self.flags & sys::ibv_device_cap_flags::IBV_DEVICE_AUTO_PATH_MIG.0 != 0
    }
}

/// An asynchronous event, with the identity of its object by which the contract names it.
pub(crate) struct RawAsync {
    pub event: u32,
    /// Queue pair's number, completion or shared receive queue's context, or port.
    pub object: u32,
}

impl Context {
    pub(crate) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and closes its descriptor as it is closed; the field does not change.
        unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).async_fd) }
    }

    pub(crate) fn limits(&self) -> Result<DeviceLimits> {
        let mut attr = MaybeUninit::<sys::ibv_device_attr>::zeroed();
        // SAFETY: the context is open and the place is large enough.
        let answer = unsafe { sys::ibv_query_device(self.ptr.as_ptr(), attr.as_mut_ptr()) };
        zero("ibv_query_device", answer)?;
        // SAFETY: zeroed, and filled by the call; all its fields are integers.
        let a = unsafe { attr.assume_init() };
        let n = |value: i32| u32::try_from(value).unwrap_or(0);
        Ok(DeviceLimits {
            vendor_id: a.vendor_id,
            flags: a.device_cap_flags,
            atomics: a.atomic_cap != sys::ibv_atomic_cap::IBV_ATOMIC_NONE,
            ports: a.phys_port_cnt,
            max_qp: n(a.max_qp),
            max_qp_wr: n(a.max_qp_wr),
            max_sge: n(a.max_sge),
            max_cq: n(a.max_cq),
            max_cqe: n(a.max_cqe),
            max_mr: n(a.max_mr),
            max_mr_size: a.max_mr_size,
            max_srq: n(a.max_srq),
            max_srq_wr: n(a.max_srq_wr),
            max_dest_rd_atomic: n(a.max_qp_rd_atom),
            max_rd_atomic: n(a.max_qp_init_rd_atom),
        })
    }

    pub(crate) fn port(&self, port: u8) -> Result<sys::ibv_port_attr> {
        let mut attr = MaybeUninit::<sys::ibv_port_attr>::zeroed();
        // SAFETY: the context is open and the place is large enough. This is the call behind the macro of
        // `verbs.h`; the plain symbol takes an older structure.
        let answer = unsafe { sys::___ibv_query_port(self.ptr.as_ptr(), port, attr.as_mut_ptr()) };
        zero("ibv_query_port", answer)?;
        // SAFETY: zeroed, and filled by the call; all its fields are integers.
        Ok(unsafe { attr.assume_init() })
    }

    pub(crate) fn gid(&self, port: u8, index: u8) -> Result<[u8; 16]> {
        let mut gid = sys::ibv_gid { raw: [0; 16] };
        // SAFETY: the context is open and the place is a GID.
        let answer = unsafe { sys::ibv_query_gid(self.ptr.as_ptr(), port, i32::from(index), &mut gid) };
        zero("ibv_query_gid", answer)?;
        // SAFETY: 16 bytes under every view of the union.
        Ok(unsafe { gid.raw })
    }

    /// Takes and acknowledges the oldest asynchronous event. Its object's destruction would otherwise wait for the
    /// acknowledgement for ever.
    pub(crate) fn async_event(&self) -> Option<RawAsync> {
        let mut event = MaybeUninit::<sys::ibv_async_event>::zeroed();
        // SAFETY: the context is open, the place is large enough, and the descriptor does not block.
        if unsafe { sys::ibv_get_async_event(self.ptr.as_ptr(), event.as_mut_ptr()) } != 0 {
            return None;
        }
        let place = event.as_mut_ptr();
        // SAFETY: the call has filled the event. Its type is read as the integer that it is in C, not as the Rust
        // enumeration that the bindings make of it: the kernel may know more types than they do.
        let number = unsafe { (&raw const (*place).event_type).cast::<u32>().read() };
        // SAFETY: which member is valid follows from the type (`ibv_get_async_event(3)`). The object lives: its
        // destruction waits until the event, which we hold, is acknowledged.
        let object = unsafe { identity(number, &raw const (*place).element) };
        // SAFETY: the event is the one just taken, acknowledged once.
        unsafe { sys::ibv_ack_async_event(place) };
        Some(RawAsync { event: number, object })
    }
}

/// The identity of an event's object.
///
/// # Safety
/// `element` is that of an event of this type which is not acknowledged yet.
unsafe fn identity(event: u32, element: *const sys::ibv_async_event_element_t) -> u32 {
    use sys::ibv_event_type::*;
    const QP: [u32; 8] = [
        IBV_EVENT_QP_FATAL as u32,
        IBV_EVENT_QP_REQ_ERR as u32,
        IBV_EVENT_QP_ACCESS_ERR as u32,
        IBV_EVENT_COMM_EST as u32,
        IBV_EVENT_SQ_DRAINED as u32,
        IBV_EVENT_PATH_MIG as u32,
        IBV_EVENT_PATH_MIG_ERR as u32,
        IBV_EVENT_QP_LAST_WQE_REACHED as u32,
    ];
    const CQ: u32 = IBV_EVENT_CQ_ERR as u32;
    const SRQ: [u32; 2] = [IBV_EVENT_SRQ_ERR as u32, IBV_EVENT_SRQ_LIMIT_REACHED as u32];
    // SAFETY: the caller's promise; contexts of queues are the numbers that this crate gave them.
    unsafe {
        match event {
            e if QP.contains(&e) => (*(*element).qp).qp_num,
            CQ => (*(*element).cq).cq_context as usize as u32,
            e if SRQ.contains(&e) => (*(*element).srq).srq_context as usize as u32,
            _ => (*element).port_num as u32,
        }
    }
}

//! A device for the runtime's own tests: it does nothing by itself, and the test says what completes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use weft_verbs::*;

/// What the device remembers.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: Nanos,
    /// One for each completion queue made.
    pub(crate) cqs: Vec<VecDeque<WorkCompletion>>,
    pub(crate) capacities: Vec<u32>,
    pub(crate) armed: Vec<bool>,
    pub(crate) channel: VecDeque<CqId>,
    /// Posts in order: identity, signaled, queue pair.
    pub(crate) sends: Vec<(u64, bool, QpNum)>,
    pub(crate) receives: Vec<(u64, QpNum)>,
    pub(crate) refuse_posts: bool,
    /// So many send requests of a list are accepted at most.
    pub(crate) most_of_a_list: Option<usize>,
    pub(crate) refuse_polls: bool,
    pub(crate) refuse_arms: bool,
    /// No queue pair changes its state.
    pub(crate) refuse_changes: bool,
    pub(crate) modified: Vec<QpNum>,
    pub(crate) qps_made: u32,
    pub(crate) qps_destroyed: Vec<QpNum>,
    /// Called at each destruction.
    pub(crate) at_destruction: Option<Box<dyn FnMut()>>,
    /// Services that the connection manager listens on, for ever.
    pub(crate) listens: Vec<Service>,
    pub(crate) cm_events: VecDeque<CmEvent>,
    pub(crate) rejected: Vec<CmId>,
    pub(crate) disconnected: Vec<CmId>,
    pub(crate) async_events: VecDeque<AsyncEvent>,
    /// The port has no link.
    pub(crate) no_link: bool,
    pub(crate) regions: u32,
    /// There is no memory for more regions; how often that was said.
    pub(crate) refuse_regions: bool,
    pub(crate) regions_refused: u32,
    /// There is memory for no longer ones.
    pub(crate) longest_region: Option<usize>,
    /// How often the content of a region was read.
    pub(crate) reads: u32,
    pub(crate) polls: u32,
    /// What a listener finds: a stream, or why it has none.
    pub(crate) accepts: VecDeque<std::result::Result<(), io::ErrorKind>>,
    /// What comes of opening streams; without an entry none is.
    pub(crate) connects: VecDeque<Result<()>>,
    /// Who wait for bytes of streams.
    pub(crate) readers: Vec<Waker>,
    /// What a call of the disk comes to, at once; without it there is no disk.
    pub(crate) disk: Option<Box<dyn FnMut(DiskCall<V>) -> DiskOutcome>>,
}

pub(crate) type DiskOutcome = std::result::Result<DiskDone, DiskError>;

/// A call of the disk, which has ended.
pub(crate) struct DiskEnded(DiskOutcome);

impl World {
    /// A completion reaches the first queue, and raises the event it was armed for.
    pub(crate) fn complete(&mut self, id: u64, result: std::result::Result<WcOp, WcError>) {
        let result = result.map(|op| Done { op, len: 0, imm: None, from: None });
        self.cqs[0].push_back(WorkCompletion { wr_id: id, qp: QpNum(0), result });
        if std::mem::take(&mut self.armed[0]) {
            self.channel.push_back(CqId(0));
        }
    }
}

/// Every handle of the device.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) world: Rc<RefCell<World>>,
    /// Which completion queue or queue pair it is.
    index: u32,
    /// Of a region its content, of a stream what has come and was not read.
    bytes: Rc<RefCell<Vec<u8>>>,
    /// Of a queue pair: the last handle tells of its destruction.
    _qp: Option<Rc<DropQp>>,
}

struct DropQp(Rc<RefCell<World>>, QpNum);

impl Drop for DropQp {
    fn drop(&mut self) {
        let mut world = self.0.borrow_mut();
        world.qps_destroyed.push(self.1);
        if let Some(call) = &mut world.at_destruction {
            call();
        }
    }
}

impl Fake {
    fn with(&self, index: u32) -> Fake {
        Fake { index, world: Rc::clone(&self.world), bytes: Rc::default(), _qp: None }
    }

    /// A stream on which these bytes have come.
    pub(crate) fn stream_of(&self, bytes: &[u8]) -> Fake {
        let stream = self.with(0);
        stream.arrive(bytes);
        stream
    }

    /// Bytes come on a stream, or on the one that was opened by this handle.
    pub(crate) fn arrive(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().extend_from_slice(bytes);
        let readers = std::mem::take(&mut self.world.borrow_mut().readers);
        readers.into_iter().for_each(Waker::wake);
    }
}

/// The backend.
pub(crate) struct V;

impl Verbs for V {
    type Device = Fake;
    type Context = Fake;
    type Pd = Fake;
    type Mr = Fake;
    type Channel = Fake;
    type Cq = Fake;
    type Qp = Fake;
    type Srq = Fake;
    type Ah = ();
    type Cm = Fake;
    type Oob = Fake;
    type StreamListener = Fake;
    type Stream = Fake;
    type Disk = Fake;
    type DiskRequest = DiskEnded;
    type Host = Fake;
}

impl Device<V> for Fake {
    fn name(&self) -> &str {
        "fake0"
    }
    fn open(&self) -> Result<Fake> {
        Ok(self.clone())
    }
}

impl Context<V> for Fake {
    fn device_attr(&self) -> DeviceAttr {
        DeviceAttr {
            node_guid: 0,
            model: String::new(),
            caps: Caps::ATOMICS,
            ports: 1,
            max_qp: 100,
            max_qp_wr: 1_000,
            max_sge: 1,
            max_inline: 64,
            max_cq: 100,
            max_cqe: 1_000,
            max_mr: 100,
            max_mr_size: 1 << 20,
            max_msg: 1 << 20,
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            max_srq: 0,
            max_srq_wr: 0,
        }
    }
    fn port_attr(&self, _port: u8) -> Result<PortAttr> {
        Ok(PortAttr {
            state: if self.world.borrow().no_link { PortState::Down } else { PortState::Active },
            link_layer: LinkLayer::InfiniBand,
            max_mtu: Mtu::B4096,
            active_mtu: Mtu::B2048,
            lid: 1,
            gids: 1,
            bits_per_second: 0,
        })
    }
    fn gid(&self, _port: u8, _index: u8) -> Result<Gid> {
        Ok(Gid([7; 16]))
    }
    fn alloc_pd(&self) -> Result<Fake> {
        Ok(self.clone())
    }
    fn create_channel(&self) -> Result<Fake> {
        Ok(self.clone())
    }
    fn create_cq(&self, cqe: u32, _channel: Option<&Fake>) -> Result<Fake> {
        let mut world = self.world.borrow_mut();
        world.cqs.push(VecDeque::new());
        world.capacities.push(cqe);
        world.armed.push(false);
        Ok(self.with(world.cqs.len() as u32 - 1))
    }
    fn async_event(&self) -> Option<AsyncEvent> {
        self.world.borrow_mut().async_events.pop_front()
    }
    fn connection_manager(&self) -> Result<Fake> {
        Ok(self.clone())
    }
    fn out_of_band(&self) -> Result<Fake> {
        Ok(self.clone())
    }
    fn disk(&self) -> Result<Fake> {
        let no_disk = VerbsError::Unsupported(Caps::DISK);
        self.world.borrow().disk.as_ref().map_or(Err(no_disk), |_| Ok(self.clone()))
    }
    fn host(&self) -> Fake {
        self.clone()
    }
}

impl ProtectionDomain<V> for Fake {
    fn alloc_mr(&self, len: usize, _access: AccessFlags) -> Result<Fake> {
        {
            let mut world = self.world.borrow_mut();
            if world.refuse_regions || world.longest_region.is_some_and(|longest| len > longest) {
                world.regions_refused += 1;
                return Err(VerbsError::Exhausted { what: "memory", limit: 0 });
            }
            world.regions += 1;
        }
        let region = self.with(0);
        region.bytes.borrow_mut().resize(len, 0);
        Ok(region)
    }
    fn register(&self, _memory: Box<dyn PinnedMemory>, _access: AccessFlags) -> Result<Fake> {
        Err(VerbsError::Unsupported(Caps::BROUGHT_MEMORY))
    }
    fn register_part(&self, _of: &Fake, _range: Range<usize>, _access: AccessFlags) -> Result<Fake> {
        Err(VerbsError::Invalid("this device has no parts of regions"))
    }
    fn create_qp(&self, _init: &QpInit<'_, V>) -> Result<Fake> {
        let mut world = self.world.borrow_mut();
        world.qps_made += 1;
        let qp = Rc::new(DropQp(Rc::clone(&self.world), QpNum(world.qps_made)));
        Ok(Fake { _qp: Some(qp), ..self.with(world.qps_made) })
    }
    fn create_srq(&self, _max_wr: u32, _max_sge: u32) -> Result<Fake> {
        Ok(self.with(0))
    }
    fn create_ah(&self, _path: &Path) -> Result<()> {
        Err(VerbsError::Unsupported(Caps::UD))
    }
}

impl MemoryRegion for Fake {
    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }
    fn addr(&self) -> u64 {
        0
    }
    fn lkey(&self) -> u32 {
        0
    }
    fn rkey(&self) -> u32 {
        0
    }
    fn remote(&self, _range: Range<usize>) -> Result<RemoteSlice> {
        Ok(RemoteSlice::default())
    }
    fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        self.world.borrow_mut().reads += 1;
        out.copy_from_slice(&self.bytes.borrow()[at..at + out.len()]);
        Ok(())
    }
    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn load(&self, at: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
    fn store(&self, at: usize, value: u64) -> Result<()> {
        self.write(at, &value.to_ne_bytes())
    }
    fn deregister(&self) -> Result<()> {
        Ok(())
    }
    #[allow(unsafe_code, reason = "the contract's signature; nothing is claimed")]
    unsafe fn claim(&self, _range: Range<usize>) -> Result<std::ptr::NonNull<[u8]>> {
        Err(VerbsError::DeviceGone)
    }
}

impl CompletionChannel for Fake {
    fn event(&self) -> Option<CqId> {
        self.world.borrow_mut().channel.pop_front()
    }
}

impl CompletionQueue for Fake {
    fn id(&self) -> CqId {
        CqId(self.index)
    }
    fn poll(&self, out: &mut Vec<WorkCompletion>, max: usize) -> Result<usize> {
        let mut world = self.world.borrow_mut();
        world.polls += 1;
        if world.refuse_polls {
            return Err(VerbsError::DeviceGone);
        }
        let queue = &mut world.cqs[self.index as usize];
        let count = max.min(queue.len());
        out.extend(queue.drain(..count));
        Ok(count)
    }
    fn arm(&self, _next: Arm) -> Result<()> {
        let mut world = self.world.borrow_mut();
        if world.refuse_arms {
            return Err(VerbsError::DeviceGone);
        }
        world.armed[self.index as usize] = true;
        Ok(())
    }
    fn capacity(&self) -> u32 {
        self.world.borrow().capacities[self.index as usize]
    }
    fn resize(&self, _cqe: u32) -> Result<()> {
        Err(VerbsError::Unsupported(Caps::CQ_RESIZE))
    }
}

impl QueuePair<V> for Fake {
    fn num(&self) -> QpNum {
        QpNum(self.index)
    }
    fn state(&self) -> QpState {
        match self.world.borrow().modified.contains(&QpNum(self.index)) {
            true => QpState::Rts,
            false => QpState::Init,
        }
    }
    fn query(&self) -> Result<QpAttr> {
        Err(VerbsError::DeviceGone)
    }
    fn modify(&self, _change: &Modify) -> Result<()> {
        let mut world = self.world.borrow_mut();
        if world.refuse_changes {
            return Err(VerbsError::DeviceGone);
        }
        world.modified.push(QpNum(self.index));
        Ok(())
    }
    fn post_send(&self, list: &[SendWr<'_, V>]) -> std::result::Result<(), PostError> {
        let mut world = self.world.borrow_mut();
        if world.refuse_posts {
            return Err(PostError { posted: 0, why: VerbsError::DeviceGone });
        }
        let entry =
            |wr: &SendWr<'_, V>| (wr.wr_id, wr.flags.contains(SendFlags::SIGNALED), QpNum(self.index));
        let accepted = list.len().min(world.most_of_a_list.unwrap_or(usize::MAX));
        world.sends.extend(list[..accepted].iter().map(entry));
        match accepted < list.len() {
            true => Err(PostError { posted: accepted, why: VerbsError::DeviceGone }),
            false => Ok(()),
        }
    }
    fn post_recv(&self, list: &[RecvWr<'_, V>]) -> std::result::Result<(), PostError> {
        let mut world = self.world.borrow_mut();
        if world.refuse_posts {
            return Err(PostError { posted: 0, why: VerbsError::DeviceGone });
        }
        world.receives.extend(list.iter().map(|wr| (wr.wr_id, QpNum(self.index))));
        Ok(())
    }
}

impl SharedReceiveQueue<V> for Fake {
    fn id(&self) -> SrqId {
        SrqId(0)
    }
    fn post_recv(&self, list: &[RecvWr<'_, V>]) -> std::result::Result<(), PostError> {
        self.world.borrow_mut().receives.extend(list.iter().map(|wr| (wr.wr_id, QpNum(0))));
        Ok(())
    }
    fn arm_limit(&self, _limit: u32) -> Result<()> {
        Err(VerbsError::Unsupported(Caps::SRQ))
    }
}

impl ConnectionManager<V> for Fake {
    fn listen(&self, service: Service) -> Result<()> {
        let mut world = self.world.borrow_mut();
        if world.listens.contains(&service) {
            return Err(VerbsError::Busy("the service"));
        }
        world.listens.push(service);
        Ok(())
    }
    fn resolve(&self, _node: &str, _service: Service) -> Result<CmId> {
        Ok(CmId(77))
    }
    fn port(&self, _id: CmId) -> Result<u8> {
        Ok(1)
    }
    fn connect(&self, _id: CmId, _qp: &Fake, _params: &ConnParams<'_>) -> Result<()> {
        Ok(())
    }
    fn accept(&self, _id: CmId, _qp: &Fake, _params: &ConnParams<'_>) -> Result<()> {
        Ok(())
    }
    fn reject(&self, id: CmId, _private: &[u8]) -> Result<()> {
        self.world.borrow_mut().rejected.push(id);
        Ok(())
    }
    fn disconnect(&self, id: CmId) -> Result<()> {
        self.world.borrow_mut().disconnected.push(id);
        Ok(())
    }
    fn event(&self) -> Option<CmEvent> {
        self.world.borrow_mut().cm_events.pop_front()
    }
}

impl OutOfBand<V> for Fake {
    fn listen(&self, _service: Service) -> Result<Fake> {
        Err(VerbsError::Unsupported(Caps::OUT_OF_BAND))
    }
    fn connect(&self, _node: &str, _service: Service) -> Result<Fake> {
        let next = self.world.borrow_mut().connects.pop_front();
        next.unwrap_or(Err(VerbsError::Unsupported(Caps::OUT_OF_BAND))).map(|()| self.clone())
    }
}

impl StreamListener<V> for Fake {
    fn poll_accept(&mut self, _cx: &mut TaskContext<'_>) -> Poll<io::Result<Fake>> {
        match self.world.borrow_mut().accepts.pop_front() {
            Some(Ok(())) => Poll::Ready(Ok(self.with(0))),
            Some(Err(why)) => Poll::Ready(Err(why.into())),
            None => Poll::Pending,
        }
    }
}

impl Stream for Fake {
    fn poll_read(&mut self, cx: &mut TaskContext<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut bytes = self.bytes.borrow_mut();
        let n = into.len().min(bytes.len());
        if n == 0 {
            self.world.borrow_mut().readers.push(cx.waker().clone());
            return Poll::Pending;
        }
        into.iter_mut().zip(bytes.drain(..n)).for_each(|(to, from)| *to = from);
        Poll::Ready(Ok(n))
    }
    fn poll_write(&mut self, _cx: &mut TaskContext<'_>, _bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
    fn poll_shutdown(&mut self, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl Disk<V> for Fake {
    fn begin(&self, call: DiskCall<V>) -> DiskEnded {
        DiskEnded(self.world.borrow_mut().disk.as_mut().map_or(Err(DiskError::Io), |disk| disk(call)))
    }
}

impl DiskRequest<V> for DiskEnded {
    fn poll_end(&mut self, _cx: &mut TaskContext<'_>) -> Poll<DiskEnd<V>> {
        Poll::Ready(DiskEnd { outcome: self.0.clone(), buffer: None })
    }
}

impl Clock for Fake {
    fn now(&self) -> Nanos {
        self.world.borrow().now
    }
}

impl Host for Fake {
    fn random(&self) -> u64 {
        4
    }
    fn spend(&self, work: Work) {
        if let Work::Compute(span) = work {
            self.world.borrow_mut().now += span;
        }
    }
}

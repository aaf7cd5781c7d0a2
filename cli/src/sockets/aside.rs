//! Calls of the system that may take long, made beside the node: a node that stands still acknowledges nothing, and its peer gives it up.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender, TryRecvError};
use std::thread;
use weft_verbs::Stream;

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes one call after another, and says over a pair of sockets that one has ended.
pub struct Aside<B> {
    calls: Sender<Call>,
    /// The node's end of the pair.
    bell: B,
}

impl<B: Stream> Aside<B> {
    /// Begins, with both ends of the pair. The thread ends with its last call once this is dropped.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin((bell, mut rings): (B, UnixStream)) -> io::Result<Aside<B>> {
        let (calls, asked) = mpsc::channel::<Call>();
        thread::Builder::new().spawn(move || {
            for call in asked {
                call();
                // Nobody hears it any more.
                if rings.write_all(&[1]).is_err() {
                    return;
                }
            }
        })?;
        Ok(Aside { calls, bell })
    }

    /// Has a call made, and waits for its end. It is made all the same if nobody waits any more.
    ///
    /// # Errors
    /// The call's.
    pub async fn make<T: Send + 'static>(
        &mut self,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (tell, told) = mpsc::channel();
        let call: Call = Box::new(move || drop(tell.send(call())));
        self.calls.send(call).map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        loop {
            let rung = poll_fn(|cx| self.bell.poll_read(cx, &mut [0])).await?;
            match told.try_recv() {
                Ok(end) => return end,
                // It was rung for a call before this one, for whose end nobody waited.
                Err(TryRecvError::Empty) if rung > 0 => {}
                Err(_) => return Err(ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

/// What files of this machine are tested with: the node's end of a pair of sockets without a node.
#[cfg(test)]
pub mod without_node {
    use super::*;
    use std::io::Read;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    pub struct Bell(UnixStream);

    /// A pair of sockets.
    pub fn pair() -> io::Result<(Bell, UnixStream)> {
        let (here, there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        Ok((Bell(here), there))
    }

    impl Stream for Bell {
        fn poll_read(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
            match self.0.read(into) {
                Err(why) if why.kind() == ErrorKind::WouldBlock => Poll::Pending,
                end => Poll::Ready(end),
            }
        }

        fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            unreachable!("the node only listens")
        }

        fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            unreachable!("the node only listens")
        }
    }

    /// Looks once whether something has ended.
    pub fn look<T>(work: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        work.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Looks until it has.
    pub fn ended<T>(work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            match look(work.as_mut()) {
                Poll::Ready(end) => return end,
                Poll::Pending => thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Keeps the thread busy until what is returned is dropped.
    pub fn busy<B: Stream>(aside: &mut Aside<B>) -> Sender<()> {
        let (held, until) = mpsc::channel::<()>();
        let waits = aside.make(move || {
            let _ = until.recv();
            Ok(())
        });
        assert!(look(pin!(waits)).is_pending(), "it is not let go");
        held
    }
}

#[cfg(test)]
mod tests {
    use super::without_node::{busy, ended, look, pair};
    use super::*;
    use std::pin::pin;

    #[test]
    fn a_call_keeps_nobody_and_its_end_is_told() {
        let mut aside = Aside::begin(pair().expect("sockets")).expect("a thread");
        let held = busy(&mut aside);
        {
            let mut call = pin!(aside.make(|| Ok(7)));
            assert!(look(call.as_mut()).is_pending());
            drop(held);
            // The call before it rings, too, and its end is not taken for this one's.
            assert_eq!(ended(call).expect("it is made"), 7);
        }
        let refused = ended(aside.make(|| Err::<(), _>(ErrorKind::StorageFull.into())));
        assert_eq!(refused.map_err(|why| why.kind()), Err(ErrorKind::StorageFull));
    }
}

//! A call that is looked at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Polls a call once, where it is: its end, if it does not wait.
pub(crate) async fn polled<T>(mut call: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await
}

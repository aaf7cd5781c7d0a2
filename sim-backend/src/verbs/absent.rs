//! What this backend does not offer yet. No value of these types can exist; the calls that would make one
//! answer [`VerbsError::Unsupported`](verbs_trait::VerbsError::Unsupported).

use super::Sim;
use std::io;
use std::task::{Context, Poll};
use verbs_trait::{OutOfBand, Result, Service, Stream, StreamListener};

/// The machines' ordinary network. Missing: [`Caps::OUT_OF_BAND`](verbs_trait::Caps::OUT_OF_BAND).
#[derive(Clone, Debug)]
pub enum SimOob {}

impl OutOfBand<Sim> for SimOob {
    fn listen(&self, _: Service) -> Result<SimStreamListener> {
        match *self {}
    }
    fn connect(&self, _: &str, _: Service) -> Result<SimStream> {
        match *self {}
    }
}

/// Takes incoming byte streams.
#[derive(Debug)]
pub enum SimStreamListener {}

impl StreamListener<Sim> for SimStreamListener {
    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<SimStream>> {
        match *self {}
    }
}

/// A byte stream.
#[derive(Debug)]
pub enum SimStream {}

impl Stream for SimStream {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }
    fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }
    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

//! The room of the transport by itself: messages in order, each once, whatever breaks between two nodes.

pub mod delivery;

//! What is said where a node's service is taken: another node is on this machine, by the same address.

use weft_verbs::{Service, VerbsError};

/// Where a node's services are.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The addresses by which others reach it.
    pub at: &'a str,
    /// What else it could be given.
    pub instead: &'a str,
}

impl Address<'_> {
    /// Why something with a service could not begin, in one line. Nothing else is in use before it has.
    pub fn why(&self, service: Service, refused: Option<VerbsError>, text: String) -> String {
        match refused {
            Some(VerbsError::Busy(_)) => {
                let Address { at, instead } = self;
                let Service(number) = service;
                format!("another program has port {number} of {at}, another node perhaps: {instead}")
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_meets_a_service_that_is_taken_learns_where_it_is() {
        let place = Address { at: "10.0.0.1", instead: "take --device" };
        let why = |refused| place.why(Service(4_791), Some(refused), "as it is".to_string());
        let taken = "another program has port 4791 of 10.0.0.1, another node perhaps: take --device";
        assert_eq!(why(VerbsError::Busy("rdma_bind_addr")), taken);
        assert_eq!(why(VerbsError::DeviceGone), "as it is");
    }
}

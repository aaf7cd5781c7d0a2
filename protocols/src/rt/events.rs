//! Events that are not completions: connection management and the device's asynchronous events, routed to
//! whoever asked for them.

use super::Rt;
use super::sync::{Mailbox, MailboxSender, mailbox};
use std::collections::BTreeMap;
use weft_verbs::{
    AsyncEvent, CmEvent, CmId, ConnParams, ConnectionManager, Context, Result, Service, Verbs, VerbsError,
};

/// Who gets which event.
pub(super) struct Routes<V: Verbs> {
    cm: Option<V::Cm>,
    listeners: Vec<(Service, MailboxSender<CmEvent>)>,
    connections: BTreeMap<CmId, MailboxSender<CmEvent>>,
    watchers: Vec<MailboxSender<AsyncEvent>>,
    is_lost: bool,
}

impl<V: Verbs> Routes<V> {
    pub(super) fn new() -> Routes<V> {
        Routes {
            cm: None,
            listeners: Vec::new(),
            connections: BTreeMap::new(),
            watchers: Vec::new(),
            is_lost: false,
        }
    }

    /// Whether the adapter has failed, by its own word or as it refused to be polled or armed.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn listener(&self, service: Service) -> Option<MailboxSender<CmEvent>> {
        self.listeners.iter().find(|(s, _)| *s == service).map(|(_, sender)| sender.clone())
    }

    fn route(&mut self, event: CmEvent) {
        match &event {
            CmEvent::Request { id, service, .. } => {
                let (id, service) = (*id, *service);
                match self.listener(service) {
                    Some(listener) if listener.send(event).is_ok() => {
                        self.connections.insert(id, listener);
                    }
                    // The listener went away between the request and now.
                    _ => drop(self.cm.as_ref().map(|cm| cm.reject(id, &[]))),
                }
            }
            CmEvent::Resolved { id } | CmEvent::Established { id, .. } => {
                let sender = self.connections.get(id).cloned();
                drop(sender.map(|s| s.send(event)));
            }
            CmEvent::Rejected { id, .. } | CmEvent::Unreachable { id } | CmEvent::Disconnected { id } => {
                let sender = self.connections.remove(id);
                drop(sender.map(|s| s.send(event)));
            }
        }
    }

    /// The adapter has failed, and has not said so: everyone is told all the same.
    pub(super) fn lose(&mut self) {
        if !self.is_lost {
            self.tell(AsyncEvent::DeviceFatal);
        }
    }

    fn tell(&mut self, event: AsyncEvent) {
        self.is_lost |= event == AsyncEvent::DeviceFatal;
        self.watchers.retain(|watcher| watcher.send(event).is_ok());
    }

    /// Takes all events that are there, or one, and routes them. Says whether there was any.
    pub(super) fn drain(&mut self, ctx: &V::Context, one: bool) -> bool {
        let mut any = false;
        while !(one && any)
            && let Some(event) = self.cm.as_ref().and_then(|cm| cm.event())
        {
            self.route(event);
            any = true;
        }
        while !(one && any)
            && let Some(event) = ctx.async_event()
        {
            self.tell(event);
            any = true;
        }
        any
    }

    pub(super) fn watch(&mut self) -> Mailbox<AsyncEvent> {
        let (sender, events) = mailbox();
        self.watchers.push(sender);
        events
    }

    pub(super) fn clear(&mut self) {
        *self = Routes::new();
    }
}

impl<V: Verbs> Rt<V> {
    /// Whether this rail's adapter has failed: no end of what is posted there is waited for.
    pub(super) fn is_lost(&self) -> bool {
        self.adapter().routes.borrow().is_lost()
    }
}

/// One protocol's use of the connection manager: the requests to one service, and its own attempts at whatever service.
pub struct Connector<V: Verbs> {
    rt: Rt<V>,
    cm: V::Cm,
    sender: MailboxSender<CmEvent>,
}

impl<V: Verbs> Connector<V> {
    /// Listens on a service, unless somebody does whose mailbox is there; requests to it and the progress of this connector's attempts
    /// arrive in the mailbox.
    pub(super) fn listen(rt: &Rt<V>, service: Service) -> Result<(Connector<V>, Mailbox<CmEvent>)> {
        let (sender, events) = mailbox();
        let mut routes = rt.adapter().routes.borrow_mut();
        if routes.listener(service).is_some_and(|l| !l.is_closed()) {
            return Err(VerbsError::Busy("the service"));
        }
        let cm = match &routes.cm {
            Some(cm) => cm.clone(),
            None => rt.adapter().ctx.connection_manager()?,
        };
        // A device that listens does so for ever: a listener that has gone is only replaced.
        if routes.listener(service).is_none() {
            cm.listen(service)?;
        }
        routes.cm = Some(cm.clone());
        routes.listeners.retain(|(s, _)| *s != service);
        routes.listeners.push((service, sender.clone()));
        drop(routes);
        Ok((Connector { rt: rt.clone(), cm, sender }, events))
    }

    /// One that takes no requests.
    pub(super) fn outgoing(rt: &Rt<V>) -> Result<(Connector<V>, Mailbox<CmEvent>)> {
        let (sender, events) = mailbox();
        let mut routes = rt.adapter().routes.borrow_mut();
        let cm = match &routes.cm {
            Some(cm) => cm.clone(),
            None => rt.adapter().ctx.connection_manager()?,
        };
        routes.cm = Some(cm.clone());
        drop(routes);
        Ok((Connector { rt: rt.clone(), cm, sender }, events))
    }

    /// Begins an attempt at a service of a named node.
    pub fn resolve_at(&self, node: &str, service: Service) -> Result<CmId> {
        let id = self.cm.resolve(node, service)?;
        self.rt.adapter().routes.borrow_mut().connections.insert(id, self.sender.clone());
        Ok(id)
    }

    /// Asks the resolved peer; see [`ConnectionManager::connect`].
    pub fn connect(&self, id: CmId, qp: &V::Qp, params: &ConnParams<'_>) -> Result<()> {
        self.cm.connect(id, qp, params)
    }

    /// Accepts a request; see [`ConnectionManager::accept`].
    pub fn accept(&self, id: CmId, qp: &V::Qp, params: &ConnParams<'_>) -> Result<()> {
        self.cm.accept(id, qp, params)
    }

    /// Turns a request down. One that the manager has forgotten already needs no answer.
    pub fn reject(&self, id: CmId, private: &[u8]) {
        self.rt.adapter().routes.borrow_mut().connections.remove(&id);
        let _ = self.cm.reject(id, private);
    }

    /// Ends a connection or an attempt; nothing more is heard of it. One that the manager has forgotten is
    /// over already.
    pub fn disconnect(&self, id: CmId) {
        self.rt.adapter().routes.borrow_mut().connections.remove(&id);
        let _ = self.cm.disconnect(id);
    }
}

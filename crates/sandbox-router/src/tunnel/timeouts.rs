//! How long everything takes. All of it can be set, so that tests need not wait as long as people do.

use std::time::Duration;

/// The times of both sides.
#[derive(Debug, Clone)]
pub struct Times {
    /// How often each side asks the other for a sign of life.
    pub ping: Duration,
    /// How long nothing may be heard until a connection counts as dead.
    pub dead: Duration,
    /// The same after the machine slept: then a connection has to prove itself.
    pub doubt: Duration,
    /// How often the gateway asks again whether the user may do this.
    pub recheck: Duration,
    /// How long a request waits for an agent that is coming back.
    pub wait: Duration,
    /// How long requests of a connection that was taken over may go on.
    pub drain: Duration,
    /// How long an agent that was told to end takes at most to tell the gateway.
    pub goodbye: Duration,
    /// How long the first words may take, the question to the API server included.
    pub handshake: Duration,
    /// How long a connection to the gateway may take.
    pub dial: Duration,
    /// After which another attempt begins beside one that did not come to stand.
    pub redial: Duration,
    /// The longest first pause before the agent tries again.
    pub retry_first: Duration,
    /// The longest pause while nobody answers: trying costs nobody anything, and the path may be back any moment.
    pub retry_silent: Duration,
    /// The longest pause while the gateway answers, and answers no.
    pub retry_last: Duration,
    /// How often the agent looks whether something listens on this machine.
    pub probe: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(5),
            dead: Duration::from_secs(10),
            doubt: Duration::from_secs(2),
            recheck: Duration::from_mins(10),
            wait: Duration::from_secs(2),
            drain: Duration::from_secs(5),
            goodbye: Duration::from_secs(2),
            handshake: Duration::from_secs(10),
            dial: Duration::from_secs(5),
            redial: Duration::from_secs(1),
            retry_first: Duration::from_millis(200),
            retry_silent: Duration::from_secs(1),
            retry_last: Duration::from_secs(5),
            probe: Duration::from_secs(2),
        }
    }
}

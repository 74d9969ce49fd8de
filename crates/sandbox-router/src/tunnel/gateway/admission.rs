//! Admission: which agent may hold a workload, and with which epoch. Pure.

use super::{super::hello::AgentHello, SessionGrant};

/// How far an agent's epoch may be ahead of the published one: gateways publish immediately or shortly after.
const MAX_EPOCH_LEAD: u64 = 100;

/// The agent that holds a workload, or that is expected to reconnect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder {
    /// Session id of the agent process.
    pub session: String,
    /// Its user.
    pub user: String,
}

/// What this gateway knows about a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownSession<'a> {
    /// The last holder at this gateway.
    pub(super) holder: &'a SessionHolder,
    pub(super) epoch: u64,
    /// Whether the session is connected or expected to reconnect.
    pub(super) is_live: bool,
}

/// The current holder according to this gateway and to the published grant. The higher epoch wins; at equal epochs the
/// published one, because all gateways know it.
pub(super) fn current_holder<'a>(
    known: KnownSession<'a>,
    grant: &'a SessionGrant,
) -> Option<&'a SessionHolder> {
    let is_same = grant.holder.as_ref().is_some_and(|it| it.session == known.holder.session);
    if known.epoch > grant.epoch || (known.epoch == grant.epoch && (is_same || grant.holder.is_none())) {
        return known.is_live.then_some(known.holder);
    }
    grant.holder.as_ref()
}

/// Decides whether an agent gets a workload. Returns its epoch, or the reason for the refusal.
pub(super) fn admit(
    holder: Option<&SessionHolder>,
    epoch: u64,
    user: &str,
    hello: &AgentHello,
) -> Result<u64, String> {
    // A restarted gateway continues from the agent's epoch. The agent's claim is limited, because it cannot be trusted.
    let next = epoch.max(hello.epoch.min(epoch.saturating_add(MAX_EPOCH_LEAD))).saturating_add(1);
    let Some(holder) = holder else { return Ok(next) };
    if holder.session == hello.session {
        return Ok(next);
    }
    // The agent was connected before and finds another holder: replacing it would cause an endless takeover loop.
    if hello.epoch > 0 {
        return Err(format!("{} took it over with another `capt connect`", holder.user));
    }
    if holder.user == user || hello.takeover {
        return Ok(next);
    }
    Err(format!("{} is connected; --takeover takes it from them", holder.user))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::tunnel::WorkloadName;

    fn person(session: &str, user: &str) -> SessionHolder {
        SessionHolder { session: session.to_owned(), user: user.to_owned() }
    }

    #[rstest]
    #[case::nobody_knows_of_anybody((0, false), (0, None), None)]
    #[case::it_is_held_here((4, true), (4, Some("here")), Some("here"))]
    #[case::it_is_held_here_and_nobody_was_told_yet((5, true), (4, Some("there")), Some("here"))]
    #[case::it_is_held_elsewhere((0, false), (4, Some("there")), Some("there"))]
    #[case::it_was_taken_over_elsewhere((4, true), (5, Some("there")), Some("there"))]
    #[case::who_took_it_elsewhere_left_again((4, true), (5, None), None)]
    #[case::who_was_here_left_and_nobody_was_told_yet((4, false), (4, Some("here")), None)]
    #[case::two_came_at_once((4, true), (4, Some("there")), Some("there"))]
    fn who_holds_a_workload(
        #[case] (epoch, is_live): (u64, bool),
        #[case] (told, by): (u64, Option<&str>),
        #[case] who: Option<&str>,
    ) {
        let here = person("here", "ann");
        let grant = SessionGrant {
            user: "bob".to_owned(),
            grace: std::time::Duration::ZERO,
            epoch: told,
            holder: by.map(|it| person(it, "zoe")),
        };
        let found = current_holder(KnownSession { holder: &here, epoch, is_live }, &grant);
        assert_eq!(found.map(|it| it.session.as_str()), who);
    }

    fn hello(session: &str, epoch: u64, takeover: bool) -> AgentHello {
        AgentHello {
            workload: WorkloadName::new("shop", "cart"),
            token: String::new(),
            session: session.to_owned(),
            epoch,
            version: String::new(),
            takeover,
            mappings: Vec::new(),
        }
    }

    #[rstest]
    #[case::the_same_process_comes_back("ann", "ann", hello("held", 4, false), Ok(5))]
    #[case::the_same_user_starts_another("ann", "ann", hello("new", 0, false), Ok(5))]
    #[case::the_older_of_two_comes_back("ann", "ann", hello("old", 3, false), Err(()))]
    #[case::even_if_it_took_over_once("ann", "bob", hello("old", 3, true), Err(()))]
    #[case::another_user("ann", "bob", hello("new", 0, false), Err(()))]
    #[case::another_user_insists("ann", "bob", hello("new", 0, true), Ok(5))]
    fn a_held_workload_goes_to(
        #[case] holder: &str,
        #[case] user: &str,
        #[case] hello: AgentHello,
        #[case] got: Result<u64, ()>,
    ) {
        let holder = SessionHolder { session: "held".to_owned(), user: holder.to_owned() };
        assert_eq!(admit(Some(&holder), 4, user, &hello).map_err(drop), got);
    }

    #[test]
    fn epochs_go_on_where_the_agent_was_when_the_gateway_has_forgotten() {
        assert_eq!(admit(None, 0, "ann", &hello("x", 9, false)), Ok(10));
        assert_eq!(admit(None, 12, "ann", &hello("x", 9, false)), Ok(13));
    }

    #[test]
    fn nobody_counts_epochs_to_their_end() {
        assert_eq!(admit(None, 4, "ann", &hello("x", u64::MAX, false)), Ok(4 + MAX_EPOCH_LEAD + 1));
        assert_eq!(admit(None, u64::MAX, "ann", &hello("x", u64::MAX, false)), Ok(u64::MAX));
    }

    #[test]
    fn a_refusal_names_who_is_connected() {
        let holder = SessionHolder { session: "held".to_owned(), user: "ann".to_owned() };
        let why = admit(Some(&holder), 4, "bob", &hello("new", 0, false)).unwrap_err();
        assert!(why.contains("ann") && why.contains("--takeover"), "{why}");
    }
}

//! Who may have a workload, and with which epoch. Pure.

use super::{super::hello::Hello, Grant};

/// How far an agent's epoch can be ahead of what its gateways have told: each of them tells at once, or soon after.
const AHEAD: u64 = 100;

/// Who has a workload now, or had it and is expected back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process of the agent.
    pub session: String,
    /// Whose it is.
    pub user: String,
}

/// What this gateway knows of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// Who had it here last.
    pub(super) holder: &'a Holder,
    pub(super) epoch: u64,
    /// Whether they have it still, or are expected back.
    pub(super) is_live: bool,
}

/// Who has a workload, of whom this gateway knows and whom the others have told of. The newer one does; of two with the
/// same epoch the one that was told, because everybody knows of that one.
pub(super) fn holder<'a>(known: Known<'a>, grant: &'a Grant) -> Option<&'a Holder> {
    let is_same = grant.holder.as_ref().is_some_and(|it| it.session == known.holder.session);
    if known.epoch > grant.epoch || (known.epoch == grant.epoch && (is_same || grant.holder.is_none())) {
        return known.is_live.then_some(known.holder);
    }
    grant.holder.as_ref()
}

/// Somebody knocks for a workload that is held. The epoch they get, or why they do not.
pub(super) fn admit(holder: Option<&Holder>, epoch: u64, user: &str, hello: &Hello) -> Result<u64, String> {
    // A gateway that was started anew has to go on from where the agent is. It has not been far ahead of what was told, and
    // what it says itself is not to be trusted with more.
    let next = epoch.max(hello.epoch.min(epoch.saturating_add(AHEAD))).saturating_add(1);
    let Some(holder) = holder else { return Ok(next) };
    if holder.session == hello.session {
        return Ok(next);
    }
    // It was connected, was away, and finds somebody else in its place: to throw them out again would never end.
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
    use crate::tunnel::Workload;

    fn person(session: &str, user: &str) -> Holder {
        Holder { session: session.to_owned(), user: user.to_owned() }
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
        let grant = Grant {
            user: "bob".to_owned(),
            grace: std::time::Duration::ZERO,
            epoch: told,
            holder: by.map(|it| person(it, "zoe")),
        };
        let found = holder(Known { holder: &here, epoch, is_live }, &grant);
        assert_eq!(found.map(|it| it.session.as_str()), who);
    }

    fn hello(session: &str, epoch: u64, takeover: bool) -> Hello {
        Hello {
            workload: Workload::new("shop", "cart"),
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
        #[case] hello: Hello,
        #[case] got: Result<u64, ()>,
    ) {
        let holder = Holder { session: "held".to_owned(), user: holder.to_owned() };
        assert_eq!(admit(Some(&holder), 4, user, &hello).map_err(drop), got);
    }

    #[test]
    fn epochs_go_on_where_the_agent_was_when_the_gateway_has_forgotten() {
        assert_eq!(admit(None, 0, "ann", &hello("x", 9, false)), Ok(10));
        assert_eq!(admit(None, 12, "ann", &hello("x", 9, false)), Ok(13));
    }

    #[test]
    fn nobody_counts_epochs_to_their_end() {
        assert_eq!(admit(None, 4, "ann", &hello("x", u64::MAX, false)), Ok(4 + AHEAD + 1));
        assert_eq!(admit(None, u64::MAX, "ann", &hello("x", u64::MAX, false)), Ok(u64::MAX));
    }

    #[test]
    fn a_refusal_names_who_is_connected() {
        let holder = Holder { session: "held".to_owned(), user: "ann".to_owned() };
        let why = admit(Some(&holder), 4, "bob", &hello("new", 0, false)).unwrap_err();
        assert!(why.contains("ann") && why.contains("--takeover"), "{why}");
    }
}

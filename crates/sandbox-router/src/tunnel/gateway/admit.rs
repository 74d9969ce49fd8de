//! Who may have a workload, and with which epoch. Pure.

use super::super::hello::Hello;

/// Who has a workload now, or had it and is expected back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) session: String,
    pub(super) user: String,
}

/// Somebody knocks for a workload that is held. The epoch they get, or why they do not.
pub(super) fn admit(holder: Option<&Holder>, epoch: u64, user: &str, hello: &Hello) -> Result<u64, String> {
    // A gateway that was started anew has to go on from where the agent is.
    let next = epoch.max(hello.epoch) + 1;
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
    fn a_refusal_names_who_is_connected() {
        let holder = Holder { session: "held".to_owned(), user: "ann".to_owned() };
        let why = admit(Some(&holder), 4, "bob", &hello("new", 0, false)).unwrap_err();
        assert!(why.contains("ann") && why.contains("--takeover"), "{why}");
    }
}

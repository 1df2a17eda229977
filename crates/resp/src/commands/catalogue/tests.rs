//! Lookup, arity, consistency of the catalogue, and its agreement with its page.

use std::fmt::Write;

use super::*;

/// In the order of the documentation.
const GROUPS: [Group; 6] = [
    Group::String,
    Group::Generic,
    Group::Hash,
    Group::Transactions,
    Group::Connection,
    Group::Server,
];

fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn refusal(text: &str) -> String {
    match resolve(words(text), None).unwrap_err() {
        CommandError::Message(message) => message.into_owned(),
        CommandError::WouldBlock => unreachable!(),
    }
}

#[test]
fn commands_are_found_in_any_case() {
    assert_eq!(resolve(words("GeT a"), None).unwrap().command.name, "get");
    let call = resolve(words("CLIENT SetName me"), None).unwrap();
    assert_eq!(call.command.name, "client|setname");
    assert_eq!(call.arguments(), words("me"));
    assert_eq!(resolve(words("command"), None).unwrap().command.name, "command");
}

#[test]
fn invalid_commands_get_the_errors_of_redis() {
    assert_eq!(refusal("get"), "ERR wrong number of arguments for 'get' command");
    assert_eq!(
        refusal("client setname"),
        "ERR wrong number of arguments for 'client|setname' command"
    );
    assert_eq!(refusal("client"), "ERR wrong number of arguments for 'client' command");
    assert_eq!(refusal("client fly"), "ERR unknown subcommand 'fly'. Try CLIENT HELP.");
    assert_eq!(
        refusal("fly me to"),
        "ERR unknown command 'fly', with args beginning with: 'me' 'to' "
    );
    assert_eq!(refusal("client|id"), "ERR unknown command 'client|id', with args beginning with: ");
    let long = "x".repeat(1000);
    assert!(refusal(&long).len() < 200);
    assert!(refusal(&format!("fly {long} {long}")).len() < 400);
}

#[test]
fn records_are_consistent() {
    for command in COMMANDS {
        let name = command.name;
        assert!(name.len() <= NAME_BYTES_MAX && name == name.to_ascii_lowercase(), "{name}");
        assert!(command.summary.ends_with('.'), "{name}");
        assert!(!(command.has(Flag::Write) && command.has(Flag::ReadOnly)), "{name}");
        match command.place {
            ExecutionClass::Point | ExecutionClass::Walk => {
                assert!(command.has(Flag::ReadOnly), "{name}")
            }
            ExecutionClass::Write => {
                assert!(command.has(Flag::Write) && command.keys != Keys::NONE, "{name}");
            }
            ExecutionClass::Loop => assert_eq!(command.keys, Keys::NONE, "{name}"),
            ExecutionClass::Alone => {}
        }
        if let Some((container, _)) = name.split_once('|') {
            assert!(find(container.as_bytes()).is_some(), "{name}");
        }
    }
    assert_eq!(BY_NAME.len(), COMMANDS.len(), "names are unique");
    for group in GROUPS {
        let names: Vec<_> = COMMANDS.iter().filter(|c| c.group == group).map(|c| c.name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

/// `docs/reference/commands.md` is this text; `TIDEKV_BLESS=1` writes it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the page lies in the repository, not in a store")]
fn the_documentation_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
    let expected = documentation();
    if std::env::var_os("TIDEKV_BLESS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "{path} is out of date: run this test with TIDEKV_BLESS=1");
}

fn documentation() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         The commands that `tidekv serve` supports over the Redis protocol, by group. A test\n\
         generates this page from `crates/resp/src/commands/catalogue.rs`; change it there.\n",
    );
    for group in GROUPS {
        let _ = write!(page, "\n## {}\n\n", group.name());
        page += "| Command | Description | Since |\n|---|---|---|\n";
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            if matches!(command.run, Run::Container(())) {
                continue;
            }
            let name = command.name.replace('|', " ").to_ascii_uppercase();
            let syntax = format!("{name} {}", command.syntax).trim_end().replace('|', "\\|");
            let whose = if command.name.starts_with("tide.") { "TideKV" } else { "Redis" };
            let _ =
                writeln!(page, "| `{syntax}` | {} | {whose} {} |", command.summary, command.since);
        }
    }
    page
}

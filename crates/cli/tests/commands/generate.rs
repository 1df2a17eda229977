//! Shell completions and man pages contain every command and flag of the help.

use std::process::{Command, Stdio};

use crate::run::{TestDirectory, contents, run};

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// The commands in the help.
fn commands() -> Vec<String> {
    let help = run(&["--help"]);
    let listed = help.text().split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_name_every_command() {
    let commands = commands();
    assert!(commands.len() > 10 && commands.contains(&"serve".to_owned()), "{commands:?}");
    for shell in SHELLS {
        let done = run(&["generate", "completions", shell]);
        done.ok();
        for command in &commands {
            assert!(done.text().contains(command.as_str()), "{shell} lacks {command}");
        }
        assert!(done.text().contains("profile-window"), "{shell} lacks a flag");
    }
}

/// Runs only the installed shells; a syntax error fails the test.
#[test]
fn shells_read_their_completions() {
    let place = TestDirectory::new();
    for shell in ["bash", "zsh", "fish"] {
        let path = place.write(shell, run(&["generate", "completions", shell]).ok());
        let mut command = Command::new(shell);
        command.arg("-n").arg(path).stdout(Stdio::null());
        let Ok(output) = command.output() else { continue };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{shell}: {said}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let place = TestDirectory::new();
    let directory = place.file("share/man1");
    let done = run(&["generate", "man", directory.to_str().unwrap()]);
    assert_eq!(done.ok(), b"");
    let pages = contents(&directory);
    assert!(pages.contains_key("tidekv.1"));
    for command in commands() {
        let page = pages.get(&format!("tidekv-{command}.1")).expect(&command);
        let page = str::from_utf8(page).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{command}");
    }
    let serve = str::from_utf8(&pages["tidekv-serve.1"]).unwrap();
    assert!(serve.contains("durability") && serve.contains("tidekv serve \\-\\-data"));
}

#[test]
fn generate_is_hidden_and_names_its_errors() {
    assert!(!commands().contains(&"generate".to_owned()));
    let place = TestDirectory::new();
    let file = place.write("file", "");
    run(&["generate", "man", file.to_str().unwrap()]).fails(1, &["could not create", "file"]);
    assert_eq!(run(&["generate", "completions", "tcsh"]).code, 2);
}

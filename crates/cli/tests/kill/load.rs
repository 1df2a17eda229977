//! Writes until the server is killed, and records the sent and acknowledged commands.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tidekv_io::SeededRandom;

use crate::expected::{Command, HASHES, Ledger, now_ms};
use crate::wire::{Client, Reply};

const KEYS: u64 = 250;
/// Commands sent before their replies are read.
const PIPELINE: u64 = 12;

fn command(client: usize, ledger: &mut Ledger, dice: &SeededRandom) -> Command {
    ledger.written += 1;
    let number = ledger.written;
    // Mostly long enough to cause flushes and compactions.
    let value = format!("{number}{}", "x".repeat(dice.below(1200) as usize));
    let key = format!("c{client}:key-{}", dice.below(KEYS));
    let next = |dice: &SeededRandom| format!("c{client}:key-{}", dice.below(KEYS));
    let hash = format!("c{client}:hash-{}", dice.below(HASHES as u64));
    let field = |dice: &SeededRandom| format!("field-{}", dice.below(30));
    match dice.below(40) {
        0..12 => Command::Set { key, value, deadline_ms: None },
        12..14 => {
            let key = format!("c{client}:late-{}", dice.below(20));
            let deadline_ms = Some(now_ms() + 3_600_000 + dice.below(1_000_000));
            Command::Set { key, value, deadline_ms }
        }
        14..17 => {
            let key = format!("c{client}:soon-{}", dice.below(20));
            let deadline_ms = Some(now_ms() + 50 + dice.below(800));
            Command::Set { key, value, deadline_ms }
        }
        17..20 => Command::Delete { keys: vec![key, next(dice), hash] },
        20..23 => Command::Increment { key: format!("c{client}:counter-{}", dice.below(3)) },
        23..26 => Command::SetMany(vec![
            (key, value.clone()),
            (next(dice), number.to_string()),
            (next(dice), value),
        ]),
        26..29 => {
            let fields = (0..1 + dice.below(4)).map(|_| (field(dice), value.clone())).collect();
            Command::HashSet { key: hash, fields }
        }
        29 => Command::HashDelete { key: hash, field: field(dice) },
        30 => Command::Append { key: format!("c{client}:log"), more: format!("{number},") },
        31..36 => Command::Get { key },
        36 => Command::Delete { keys: vec![format!("c{client}:log")] },
        _ => Command::Transaction(vec![
            Command::Set { key, value: value.clone(), deadline_ms: None },
            Command::Increment { key: format!("c{client}:counter-0") },
            Command::HashSet { key: hash.clone(), fields: vec![(field(dice), value.clone())] },
            Command::Delete { keys: vec![next(dice)] },
            Command::SetMany(vec![(next(dice), value), (next(dice), number.to_string())]),
            Command::HashDelete { key: hash, field: field(dice) },
        ]),
    }
}

/// Reads the reply of the oldest pending command; `None` if the server is gone.
fn acknowledge(connection: &mut Client, ledger: &mut Ledger) -> Option<()> {
    let command = ledger.under_way.front().expect("it was sent");
    let mut requests = Vec::new();
    command.requests(&mut requests);
    let mut last = Reply::Nil;
    for _ in requests {
        last = connection.reply()?;
        assert!(!matches!(last, Reply::Error(_)), "{last:?} to {command:?}");
    }
    if let Command::Transaction(_) = command {
        assert!(matches!(last, Reply::Many(_)), "{last:?} to EXEC");
    }
    let command = ledger.under_way.pop_front().expect("it is there");
    if let Some(right) = ledger.state.apply(&command) {
        assert_eq!(last, right, "to {command:?}");
    }
    ledger.acknowledged += 1;
    Some(())
}

/// Writes until the server is killed.
pub fn load(socket: &Path, client: usize, ledger: &mut Ledger, seed: u64, stop: &AtomicBool) {
    let dice = SeededRandom::new(seed ^ (client as u64) << 40);
    let Some(mut connection) = Client::connect(socket) else { return };
    while !stop.load(Ordering::Relaxed) {
        let commands: Vec<Command> =
            (0..1 + dice.below(PIPELINE)).map(|_| command(client, ledger, &dice)).collect();
        let mut requests = Vec::new();
        commands.iter().for_each(|command| command.requests(&mut requests));
        let count = commands.len();
        // From now on the server may have executed them.
        ledger.under_way.extend(commands);
        if !connection.send(&requests) {
            return;
        }
        for _ in 0..count {
            if acknowledge(&mut connection, ledger).is_none() {
                return;
            }
        }
    }
}

//! `plan`: from curves to a plan with its cost.

use std::io::{Read, Write};

use serde_json::Value;

use crate::profile::profile;
use crate::run::{Done, TestDirectory, run, tidekv};
use crate::serving::{Serving, ask};

/// A sample says how far it may be off, and a plan leaves that margin.
#[test]
fn plans_leave_a_margin_for_the_errors_of_a_sample() {
    let place = TestDirectory::new();
    let mut state = 1_u64;
    let mut line = |_| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let part = (state >> 11) as f64 / (1_u64 << 53) as f64;
        format!("{:.0},1000\n", 20_000_f64.powf(part))
    };
    let trace = "key,value_size\n".to_owned() + &(0..100_000).map(&mut line).collect::<String>();
    let exact = profile(&place, &trace, &["--exact"]);
    assert!(!String::from_utf8_lossy(exact.ok()).contains("standard_error"));
    let sample = profile(&place, &trace, &["--samples", "500"]);
    let text = std::str::from_utf8(sample.ok()).unwrap();
    assert!(
        text.starts_with(
            "size,miss_ratio,standard_error,size_error\n0,1.000000,0.000000,0.000000\n"
        ),
        "{text}"
    );
    let json = profile(&place, &trace, &["--samples", "500", "--json"]);
    let sizes = |curve: &[u8], more: &[&str]| {
        let curve = place.write("one.curve", std::str::from_utf8(curve).unwrap());
        let one = format!("one={}", curve.to_str().unwrap());
        let arguments = ["plan", "--curve", &one, "--sla", "500us", "--total-flash", "0"];
        let done = run(&[&arguments[..], more].concat());
        let text = String::from_utf8_lossy(done.ok()).into_owned();
        let json: Value =
            serde_json::from_slice(run(&[&arguments[..], &["--json"], more].concat()).ok())
                .unwrap();
        (json["tenants"][0]["dram_bytes"].as_u64().unwrap(), text)
    };
    let (plain, without) = sizes(sample.ok(), &["--margin", "0"]);
    let (default, with) = sizes(sample.ok(), &[]);
    let (same, _) = sizes(sample.ok(), &["--margin", "2"]);
    let (more, _) = sizes(sample.ok(), &["--margin", "4"]);
    assert!(plain < default && default == same && same < more, "{plain} {default} {more}");
    assert!(with.contains("2 standard errors") && without.contains("0 standard errors"), "{with}");
    assert_eq!(sizes(json.ok(), &[]).0, default);
    let (exactly, text) = sizes(exact.ok(), &[]);
    assert!(exactly <= default && !text.contains("standard error"), "{exactly} {default} {text}");
    for wrong in ["-1", "NaN", "x"] {
        let margin = format!("--margin={wrong}");
        assert_eq!(run(&["plan", "--curve", "a=b", "--sla", "1ms", &margin]).code, 2);
    }
}

/// Two tenants; `docs/guide/provisioning.md` derives their plan by hand.
fn tenants(place: &TestDirectory) -> [String; 2] {
    let web = "size,miss_ratio\n268435456,0.20\n1073741824,0.05\n4294967296,0.01\n";
    let ads = "size,miss_ratio\n1073741824,0.60\n8589934592,0.30\n34359738368,0.10\n";
    let of =
        |name: &str, curve: &str| format!("{name}={}", place.write(name, curve).to_str().unwrap());
    [of("web", web), of("ads", ads)]
}

fn plan(place: &TestDirectory, arguments: &[&str]) -> Done {
    let [web, ads] = tenants(place);
    run(&[&["plan", "--curve", &web, "--curve", &ads], arguments].concat())
}

#[test]
fn two_tenants_get_the_sizes_that_their_curves_need() {
    let place = TestDirectory::new();
    let slas = ["--sla", "web=90us", "--sla", "ads=215us"];
    let done = plan(&place, &[&slas[..], &["--json"]].concat());
    let plan_of: Value = serde_json::from_slice(done.ok()).unwrap();
    let of = |tenant: usize, name: &str| plan_of["tenants"][tenant][name].as_f64().unwrap();
    let gib = f64::from(1 << 30);
    // 10 + 100 · 0.20 + 1000 · 0.05 = 80.
    assert_eq!((of(0, "dram_bytes") / gib, of(0, "flash_bytes") / gib), (0.25, 0.75));
    assert!((of(0, "latency_us") - 80.0).abs() < 1e-9);
    // 10 + 100 · 1 + 1000 · 0.10 = 210: no DRAM at all.
    assert_eq!((of(1, "dram_bytes") / gib, of(1, "flash_bytes") / gib), (0.0, 32.0));
    assert!((plan_of["cost"].as_f64().unwrap() - (13.0 * 0.25 + 0.75 + 32.0)).abs() < 1e-9);
    let done = plan(&place, &slas);
    let text = std::str::from_utf8(done.ok()).unwrap().to_owned();
    for says in ["web ", "256 MiB", "768 MiB", "0.2000", "80.0", "36.000", "32 GiB", "1 : 4"] {
        assert!(text.contains(says), "{says:?} is not in {text}");
    }
}

#[test]
fn each_tenant_may_have_its_own_latencies() {
    let place = TestDirectory::new();
    let slas = ["--sla", "web=90us", "--sla", "ads=215us"];
    let all = ["--latencies", "ads=,50us,2ms", "--latencies", "10us,100us,1ms"];
    let done = plan(&place, &[&slas[..], &all].concat());
    // With flash 10 + 50 + 2000 · 0.1 = 260; with DRAM alone 10 + 2000 · 0.1 = 210.
    for says in [
        "latency of web = 10 + 100 mr(DRAM) + 1000 mr(both)",
        "latency of ads = 10 + 50 mr(DRAM) + 2000 mr(both)",
        " 210.0       215.0",
        "256 MiB ",
    ] {
        assert!(done.text().contains(says), "{says:?} is not in {}", done.text());
    }
    plan(&place, &[&slas[..], &["--latencies", "web=10us,100us,1ms"], &all[..2]].concat()).ok();
}

#[test]
fn percentiles_are_met_beside_the_mean() {
    let place = TestDirectory::new();
    let of = |arguments: &[&str]| {
        let done = plan(&place, &[arguments, &["--json"]].concat());
        let value: Value = serde_json::from_slice(done.ok()).unwrap();
        let [web, _] = &value["tenants"].as_array().unwrap()[..] else { panic!("{value}") };
        let mib = |name: &str| web[name].as_u64().unwrap() >> 20;
        ((mib("dram_bytes"), mib("flash_bytes")), web["percentiles"].clone())
    };
    let mean = ["--sla", "ads=1ms", "--sla", "web=300us"];
    assert_eq!(of(&mean), ((0, 1_024), serde_json::json!([])));
    // Flash answers in 110 µs, and 1 % misses 4 GiB.
    let p99 = [&mean[..], &["--sla", "web=p99:120us"]].concat();
    let share = serde_json::json!([{ "percent": 99.0, "within_us": 120.0, "share": 0.99 }]);
    assert_eq!(of(&p99), ((0, 4_096), share));
    // 80 % within the time of DRAM as well: 256 MiB of it.
    let both = [&p99[..], &["--sla", "web=p80:20us"]].concat();
    assert_eq!(of(&both).0, (256, 3_840));
    let done = plan(&place, &both);
    for says in [
        "web p80: 80.00 % of requests within 20 µs",
        "web p99: 99.00 % of requests within 120 µs",
        "web: a request takes 10 µs from DRAM, 110 from flash, 1110 from the backend",
    ] {
        assert!(done.text().contains(says), "{says:?} is not in {}", done.text());
    }
    // Without flash there is no time of flash.
    let done = plan(&place, &["--sla", "p50:1010us"]);
    let says = "ads: a request takes 10 µs from DRAM, 1010 from the backend";
    assert!(done.text().contains(says), "{}", done.text());
    let done = plan(&place, &["--sla", "ads=1ms", "--sla", "web=p99.5:500us"]);
    done.fails(1, &["p99.5 of 500 µs for web", "at most 99.00 %", "1010.0 µs at the least"]);
    let narrow = [&p99[..], &["--total-flash", "3GiB"]].concat();
    let done = plan(&place, &[&narrow[..], &["--total-dram", "0"]].concat());
    done.fails(1, &["no plan exists within these limits", "flash of 5 GiB"]);
}

/// The curve is of a sample: its error counts for the targets of percentiles as well.
#[test]
fn margin_applies_to_percentiles() {
    let place = TestDirectory::new();
    let text = "size,miss_ratio,standard_error\n1048576,0.10,0.01\n2097152,0.07,0.01\n";
    let one = format!("one={}", place.write("one.curve", text).to_str().unwrap());
    let mib = |margin: &str| {
        let done =
            run(&["plan", "--curve", &one, "--sla", "p90:500us", "--margin", margin, "--json"]);
        let value: Value = serde_json::from_slice(done.ok()).unwrap();
        value["tenants"][0]["flash_bytes"].as_u64().unwrap() >> 20
    };
    assert_eq!((mib("0"), mib("2")), (1, 2));
}

/// A thousand requests per second, of objects of 2000 bytes.
#[test]
fn flash_writes_and_the_life_of_flash_are_told() {
    let place = TestDirectory::new();
    let text = "{\"unit\":\"bytes\",\"requests\":1e5,\"seconds\":100,\"object_bytes\":2000,\
                \"points\":[[0,1],[1073741824,0.5],[4294967296,0.1]]}";
    let one = format!("one={}", place.write("one.json", text).to_str().unwrap());
    let prices = place.file("prices.toml");
    let plan_of = |dwpd: &str, more: &[&str]| {
        let text = format!(
            "dram_per_gib = 13\nflash_per_gib = 1\nflash_dwpd = {dwpd}\nflash_warranty_years = 5\n"
        );
        std::fs::write(&prices, text).unwrap();
        let prices = ["--prices", prices.to_str().unwrap()];
        run(&[&["plan", "--curve", &one], &prices[..], more].concat())
    };
    // 10 + 100 · 0.5 + 1000 · 0.1 = 160: a GiB of DRAM, and 3 of flash.
    let sla = ["--sla", "160us"];
    let done = plan_of("100", &[&sla[..], &["--json"]].concat());
    let value: Value = serde_json::from_slice(done.ok()).unwrap();
    let writes = &value["flash_writes"];
    assert_eq!(writes["bytes_per_s"], 1_000_000.0);
    assert_eq!(writes["bytes_per_day"], 86_400_000_000.0_f64);
    assert_eq!(value["tenants"][0]["flash_writes"]["bytes_per_s"], 1_000_000.0);
    let near =
        |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 1e-9;
    let per_day = 86_400_000_000.0 / 3_221_225_472.0;
    assert!(near(&writes["drive_writes_per_day"], per_day), "{writes}");
    let endurance = &writes["endurance"];
    assert!(near(&endurance["years"], 5.0 * 100.0 / per_day), "{writes}");
    assert_eq!(endurance["outlives_warranty"], true);
    let done = plan_of("100", &sla);
    for says in [
        "\none                 976.6 KiB     80.5 GiB              26.822\n",
        "\nall                 976.6 KiB     80.5 GiB              26.822\n",
        "flash is worn out after 18.6 years: it endures 100 DWPD for 5 years",
    ] {
        assert!(done.text().contains(says), "{says:?} is not in {}", done.text());
    }
    let done = plan_of("1", &sla);
    let says = "WARNING: flash is worn out after 68.0 days, before its warranty ends: it endures 1 \
                DWPD for 5 years";
    assert!(done.text().contains(says), "{}", done.text());
    // Without flash there is nothing to tell.
    let done = plan_of("1", &["--sla", "160us", "--total-flash", "0"]);
    assert!(!done.text().contains("flash writes") && !done.text().contains("worn"), "{done:?}");
    // And without rates or sizes it is unknown, which is not zero.
    let done = plan(&place, &["--sla", "1ms", "--sla", "web=90us"]);
    let says = "flash writes are unknown: they need the request rates of web, ads (--requests) and \
                the object sizes of web, ads (curves of `tidekv profile --json`)";
    assert!(done.text().contains(says), "{}", done.text());
    let done = plan(&place, &["--sla", "1ms", "--sla", "web=90us", "--json"]);
    let value: Value = serde_json::from_slice(done.ok()).unwrap();
    assert_eq!(
        (&value["flash_writes"], &value["tenants"][0]["flash_writes"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_plan_is_drawn_on_the_curves() {
    let place = TestDirectory::new();
    let file = place.file("plan.svg");
    let file = file.to_str().unwrap();
    let done = plan(&place, &["--sla", "web=90us", "--sla", "ads=215us", "--svg", file]);
    // The text output is unchanged.
    assert!(std::str::from_utf8(done.ok()).unwrap().contains("36.000"), "{done:?}");
    let picture = std::fs::read_to_string(file).unwrap();
    for says in [
        "web: 80.0 µs (SLA 90.0 µs), cost 4.000",
        "ads: 210.0 µs (SLA 215.0 µs), cost 32.000",
        ">DRAM 256 MiB: misses 0.2000<",
        ">with flash 1 GiB: misses 0.0500<",
        ">with flash 32 GiB: misses 0.1000<",
        "1 : 4 DRAM",
        ">Size of DRAM, or of DRAM with flash (bytes, logarithmic scale)<",
        // A power of two below the first point.
        ">128 MiB<",
    ] {
        assert!(picture.contains(says), "{says:?} is not in {picture}");
    }
    // A size of zero is not drawn.
    assert_eq!(picture.matches(">DRAM ").count(), 1, "{picture}");
    let slas = ["--sla", "web=300us", "--sla", "ads=850us", "--total-flash", "0", "--svg", file];
    plan(&place, &slas).ok();
    let picture = std::fs::read_to_string(file).unwrap();
    assert!(picture.contains(">DRAM ") && !picture.contains(">with flash "), "{picture}");
    let nowhere = place.file("nowhere/plan.svg");
    let arguments = ["--sla", "1ms", "--svg", nowhere.to_str().unwrap()];
    plan(&place, &arguments).fails(1, &["nowhere/plan.svg"]);
}

/// A cache with two tenants, each of which cycles over all of its objects: `web` over a
/// hundred, `ads` over four hundred, of 1000 bytes each.
fn circling(login: Option<&str>, arguments: &[&str]) -> (Serving, impl Fn() + use<>) {
    let mut command = tidekv();
    command.args(["cache", "--listen", "127.0.0.1:0", "--dram", "16MiB", "--object-max", "1MiB"]);
    command.args(["--tenant", "web=web:", "--tenant", "ads=ads:"]).args(arguments);
    let serving = Serving::start(command);
    let mut stream = serving.connect();
    if let Some(login) = login {
        assert_eq!(ask(&mut stream, &[&format!("set a 0 0 {}\r\n{login}", login.len())]), "STORED");
    }
    let stream = std::cell::RefCell::new(stream);
    let value = "x".repeat(1_000);
    let round = move || {
        let mut stream = stream.borrow_mut();
        for (tenant, objects) in [("web", 100), ("ads", 400)] {
            for number in 0..objects {
                let key = format!("{tenant}:{number:04}");
                let set = format!("set {key} 0 0 1000 noreply\r\n{value}\r\n");
                stream.write_all(format!("get {key}\r\n{set}mn\r\n").as_bytes()).unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"MN\r\n") {
                    let mut part = [0; 4_096];
                    let count = stream.read(&mut part).unwrap();
                    answer.extend_from_slice(&part[..count]);
                }
            }
        }
    };
    (serving, round)
}

/// The plan of a running cache, after a complete profiling window.
fn live(serving: &Serving, round: impl Fn(), arguments: &[&str]) -> Value {
    let plan = [&["plan", "--live", serving.address(), "--json"], arguments].concat();
    for _ in 0..600 {
        round();
        let done = run(&plan);
        if done.code == 0 {
            let plan: Value = serde_json::from_slice(done.ok()).unwrap();
            if plan["now"]["latency_us"].as_f64().is_some_and(|us| us < 11.0) {
                return plan;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("no complete window: {:?}", run(&plan));
}

#[test]
fn a_live_plan_covers_the_tenants_of_a_running_cache() {
    let (serving, round) = circling(None, &["--profile-window", "1s"]);
    let plan = ["plan", "--live", serving.address(), "--sla", "1ms"];
    run(&plan).fails(1, &["no curves yet"]);
    let times = ["--latencies", "10us,100us,1ms"];
    let plan_of =
        live(&serving, round, &[&["--sla", "web=20us", "--sla", "ads=200us"], &times[..]].concat());
    let of = |tenant: usize, name: &str| plan_of["tenants"][tenant][name].as_f64().unwrap();
    assert_eq!(plan_of["tenants"][0]["tenant"], "ads");
    // A cache smaller than the cycle misses every request; flash takes 110 µs and DRAM 10.
    let near = |bytes: f64, objects: f64| (1_200.0..1_300.0).contains(&(bytes / objects));
    assert!(of(0, "dram_bytes") == 0.0 && near(of(0, "flash_bytes"), 400.0), "{plan_of}");
    assert!(near(of(1, "dram_bytes"), 100.0) && of(1, "flash_bytes") == 0.0, "{plan_of}");
    assert_eq!((of(0, "latency_us"), of(1, "latency_us")), (110.0, 10.0));
    let cost = (of(0, "flash_bytes") + 13.0 * of(1, "dram_bytes")) / f64::from(1 << 30);
    assert!((plan_of["cost"].as_f64().unwrap() - cost).abs() < 1e-12);
    let done = run(&[&plan[..], &times[..]].concat());
    let text = std::str::from_utf8(done.ok()).unwrap();
    assert!(text.contains("current sizes, 10.7 MiB of DRAM and 0 B of flash"), "{text}");
}

#[test]
fn a_live_plan_covers_the_keyspaces_of_a_running_store() {
    let place = TestDirectory::new();
    let (data, password) = (place.file("data"), place.write("password", "secret\n"));
    let mut command = tidekv();
    command.args(["serve", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    command.args(["--memory", "64MiB", "--profile-window", "1s"]);
    command.args(["--password-file", password.to_str().unwrap()]);
    let serving = Serving::start(command);
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["auth", "secret"]), "+OK");
    // Two hundred strings of 1000 bytes, and a hash with a hundred fields, each read cyclically.
    let value = "x".repeat(1_000);
    for number in 0..200 {
        assert_eq!(ask(&mut stream, &["set", &format!("key{number:03}"), &value]), "+OK");
    }
    for number in 0..100 {
        assert_eq!(ask(&mut stream, &["hset", "hash", &format!("field{number:03}"), &value]), ":1");
    }
    let stream = std::cell::RefCell::new(stream);
    let round = || {
        let mut stream = stream.borrow_mut();
        for (command, count) in [("get key", 200), ("hget hash field", 100)] {
            for number in 0..count {
                stream.write_all(format!("{command}{number:03}\r\n").as_bytes()).unwrap();
                let mut answer = vec![0; "$1000\r\n".len() + 1_000 + 2];
                stream.read_exact(&mut answer).unwrap();
            }
        }
    };
    let plan =
        ["plan", "--live", serving.address(), "--sla", "20us", "--latencies", "10us,100us,1ms"];
    run(&plan).fails(1, &["NOAUTH"]);
    let plan = [&plan[..], &["--json", "--auth-file", password.to_str().unwrap()]].concat();
    for _ in 0..600 {
        round();
        let done = run(&plan);
        let plan: Value = serde_json::from_slice(&done.out).unwrap_or_default();
        let dram = |name: &str| {
            let tenants = plan["tenants"].as_array()?;
            tenants.iter().find(|tenant| tenant["tenant"] == name)?["dram_bytes"].as_f64()
        };
        // The plan omits a keyspace without requests so far.
        let (Some(of_default), Some(of_hash)) = (dram("default"), dram("hash.fields")) else {
            std::thread::sleep(std::time::Duration::from_millis(50));
            continue;
        };
        // Only DRAM answers within 20 µs, so it must hold the whole cycle.
        assert!((200_000.0..230_000.0).contains(&of_default), "{plan}");
        assert!((100_000.0..115_000.0).contains(&of_hash), "{plan}");
        return;
    }
    panic!("no complete window: {:?}", run(&plan));
}

#[test]
fn a_live_plan_needs_the_password_of_the_cache() {
    let place = TestDirectory::new();
    let users = place.write("users", "me:secret\n");
    let users = users.to_str().unwrap();
    let (serving, round) =
        circling(Some("me secret"), &["--auth-file", users, "--profile-window", "1s"]);
    let plan = ["plan", "--live", serving.address(), "--sla", "1ms"];
    run(&plan).fails(1, &["unauthenticated"]);
    let wrong = place.write("wrong", "me:guess\n");
    let done = run(&[&plan[..], &["--auth-file", wrong.to_str().unwrap()]].concat());
    done.fails(1, &["CLIENT_ERROR"]);
    let found = live(&serving, round, &["--sla", "1ms", "--auth-file", users]);
    assert_eq!(found["tenants"].as_array().unwrap().len(), 2);
}

#[test]
fn a_live_plan_of_a_server_without_curves_fails_with_the_reason() {
    let (serving, round) = circling(None, &["--profile-window", "0"]);
    round();
    run(&["plan", "--live", serving.address(), "--sla", "1ms"]).fails(1, &["profiling is off"]);
    run(&["plan", "--live", "127.0.0.1:1", "--sla", "1ms"])
        .fails(1, &["could not query 127.0.0.1:1"]);
    for arguments in
        [&["plan", "--sla", "1ms"][..], &["plan", "--live", "x", "--curve", "a=b", "--sla", "1ms"]]
    {
        let done = run(arguments);
        assert!(done.code == 2 && done.err.contains("--curve"), "{done:?}");
    }
}

#[test]
fn reached_limits_and_infeasible_plans_are_explained() {
    let place = TestDirectory::new();
    let slas = ["--sla", "web=90us", "--sla", "ads=180us"];
    // 10 + 100 · 0.6 + 1000 · 0.1 = 170: a GiB of DRAM.
    let done = plan(&place, &[&slas[..], &["--total-dram", "1.25GiB"]].concat());
    let text = std::str::from_utf8(done.ok()).unwrap().to_owned();
    assert!(
        text.contains("limit reached: DRAM of 1.2 GiB; DRAM of 1 GiB more would save nothing"),
        "{text}"
    );
    let done = plan(&place, &[&slas[..], &["--total-dram", "1GiB"]].concat());
    done.fails(1, &["no plan exists within these limits", "DRAM of 1.2 GiB"]);
    let done = plan(&place, &["--sla", "100us"]);
    done.fails(1, &["ads", "100 µs", "the least is 110.0 µs"]);
    // The reverse goal: the fastest plan for a budget.
    let done = plan(&place, &["--cost", "40", "--json"]);
    let value: Value = serde_json::from_slice(done.ok()).unwrap();
    assert!(value["cost"].as_f64().unwrap() <= 40.0);
}

#[test]
fn invalid_plan_arguments_are_explained() {
    let place = TestDirectory::new();
    plan(&place, &["--sla", "fast"]).fails(2, &["700us"]);
    plan(&place, &["--sla", "shop=1ms"]).fails(2, &["shop"]);
    plan(&place, &["--sla", "web=1ms"]).fails(2, &["--sla"]);
    plan(&place, &["--sla", "web=p99:1ms"]).fails(2, &["--sla"]);
    plan(&place, &["--sla", "p100:1ms"]).fails(2, &["above 0 and below 100"]);
    plan(&place, &["--sla", "1ms", "--sla", "2ms"]).fails(2, &["second for all tenants"]);
    plan(&place, &["--sla", "1ms", "--latencies", "1us,2us"]).fails(2, &["--latencies"]);
    let twice = ["--sla", "1ms", "--latencies", "web=1us,,", "--latencies", "web=2us,,"];
    plan(&place, &twice).fails(2, &["second for tenant \"web\""]);
    let unknown = ["--sla", "1ms", "--latencies", "shop=1us,,"];
    plan(&place, &unknown).fails(2, &["shop", "the tenants are web, ads"]);
    plan(&place, &["--sla", "1ms", "--index", "2"]).fails(1, &["the size of objects"]);
    plan(&place, &["--sla", "1ms", "--requests", "web=-1"]).fails(2, &["NAME=N"]);
    for (text, what) in [
        ("dram_per_gib = -1\nflash_per_gib = 1\n", "dram_per_gib is -1, but a price"),
        ("dram_per_gib = 1\nflash_per_gib = 1\nssd = 1\n", "line 3: unknown field `ssd`"),
        ("dram_per_gib", "line 1: "),
    ] {
        let prices = place.write("prices", text);
        let done = plan(&place, &["--sla", "1ms", "--prices", prices.to_str().unwrap()]);
        done.fails(1, &["/prices: ", what]);
    }
    let done = plan(&place, &["--sla", "1ms", "--prices", "/nowhere/prices.toml"]);
    done.fails(1, &["could not read /nowhere/prices.toml"]);
    let bad = format!(
        "bad={}",
        place.write("bad", "size,miss_ratio\n10,0.5\n20,0.7\n").to_str().unwrap()
    );
    run(&["plan", "--curve", &bad, "--sla", "1ms"]).fails(1, &["point 2"]);
}

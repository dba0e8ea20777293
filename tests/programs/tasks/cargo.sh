# cargo builds a crate
# needs: cargo
mkdir -p a/src
printf '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n' >a/Cargo.toml
printf 'use std::thread;\nfn main() { let h: Vec<_> = (0..4).map(|i| thread::spawn(move || i)).collect(); let s: i32 = h.into_iter().map(|t| t.join().unwrap()).sum(); println!("{}", s); }\n' >a/src/main.rs
cd a
cargo build --offline
[ "$(target/debug/a)" = 6 ]

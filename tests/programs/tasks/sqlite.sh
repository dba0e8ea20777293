# sqlite keeps a database with a write-ahead log
# needs: sqlite3
sqlite3 x.db 'pragma journal_mode=wal; create table t(a); insert into t values (42);'
sqlite3 x.db 'begin immediate; update t set a = a + 1; commit;'
[ "$(sqlite3 x.db 'select a from t')" = 43 ]

-- A database as version 1 made it. It never changes: such files exist.
PRAGMA application_id = 1802529652;
CREATE TABLE documents(
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL,
    content_hash TEXT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,
    issues TEXT NOT NULL,
    origin TEXT NOT NULL,
    uri TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    superseded_by INTEGER REFERENCES documents(n) ON DELETE SET NULL
    ) STRICT;
CREATE INDEX documents_superseded ON documents(superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE passages(
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES documents(n) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    headings TEXT NOT NULL,
    length INTEGER NOT NULL,
    is_first INTEGER NOT NULL,
    term_ids BLOB NOT NULL,
    term_counts BLOB NOT NULL
    ) STRICT;
CREATE INDEX passages_document ON passages(document);
CREATE TABLE terms(n INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE) STRICT;
CREATE VIRTUAL TABLE found USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii');
CREATE VIRTUAL TABLE found_words USING fts5vocab(found, row);
CREATE TABLE state(
    one INTEGER PRIMARY KEY CHECK (one = 1),
    analyzer TEXT NOT NULL,
    documents INTEGER NOT NULL,
    passages INTEGER NOT NULL,
    length INTEGER NOT NULL,
    revision TEXT NOT NULL
    ) STRICT;
CREATE TABLE keys(key TEXT PRIMARY KEY, documents INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO documents(n, id, content, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by) VALUES (1, 'guides/pump.md', x'2d2d2d0a6b696e643a2067756964650a2d2d2d0a232050756d700a0a54686520696d70656c6c6572207475726e7320617420313435302072706d2e0a0a232320436172650a0a477265617365206974207477696365206120796561722e0a', '39f8e1e45eb53004fa22bf39a12abceb79f7b9338ed14e9400b3279c7cfb3b7e', 'Pump', '{"kind": "guide"}', '[]', 'text', 'import:docs/guides/pump.md', '2025-01-02T03:04:05+00:00', NULL);
INSERT INTO documents(n, id, content, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by) VALUES (2, 'valve.md', x'232056656e74696c206772c3b6c39f650a0ae6b0b4e6b8a9e3818ce9ab98e38184e380820a', '35e1d67a8db880061905f26c8a141e88eb22dcf7fa3c06f20d8758ddf7498e7c', 'Ventil größe', '{}', '[{"code": "frontmatter-missing", "severity": "info", "path": "valve.md", "line": 1, "message": "The document has no frontmatter", "mend": "Begin it with `---`, `title: ...`, `---`, if you like."}]', 'text', 'import:docs/valve.md', '2025-01-02T03:04:05+00:00', NULL);
INSERT INTO documents(n, id, content, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by) VALUES (3, 'old.md', x'23204f6c642070756d700a0a496d70656c6c6572206f66207965737465726461792e0a', 'bca1189e4a9bfb63455ea25758306a81376e361fd79d71cc4531227268e198cb', 'Old pump', '{}', '[{"code": "frontmatter-missing", "severity": "info", "path": "old.md", "line": 1, "message": "The document has no frontmatter", "mend": "Begin it with `---`, `title: ...`, `---`, if you like."}]', 'text', 'import:docs/old.md', '2025-01-02T03:04:05+00:00', 1);
INSERT INTO terms(n, term) VALUES (1, 'twice');
INSERT INTO terms(n, term) VALUES (2, 'at');
INSERT INTO terms(n, term) VALUES (3, 'turn');
INSERT INTO terms(n, term) VALUES (4, '1450');
INSERT INTO terms(n, term) VALUES (5, 'impel');
INSERT INTO terms(n, term) VALUES (6, 'rpm');
INSERT INTO terms(n, term) VALUES (7, 'care');
INSERT INTO terms(n, term) VALUES (8, 'greas');
INSERT INTO terms(n, term) VALUES (9, 'year');
INSERT INTO terms(n, term) VALUES (10, 'it');
INSERT INTO terms(n, term) VALUES (11, 'a');
INSERT INTO terms(n, term) VALUES (12, 'pump');
INSERT INTO terms(n, term) VALUES (13, 'the');
INSERT INTO terms(n, term) VALUES (14, '高い');
INSERT INTO terms(n, term) VALUES (15, 'が');
INSERT INTO terms(n, term) VALUES (16, '水温');
INSERT INTO terms(n, term) VALUES (17, 'が高');
INSERT INTO terms(n, term) VALUES (18, '温が');
INSERT INTO terms(n, term) VALUES (19, '水');
INSERT INTO terms(n, term) VALUES (20, 'ventil');
INSERT INTO terms(n, term) VALUES (21, 'い');
INSERT INTO terms(n, term) VALUES (22, '高');
INSERT INTO terms(n, term) VALUES (23, 'grösse');
INSERT INTO terms(n, term) VALUES (24, '温');
INSERT INTO terms(n, term) VALUES (25, 'old');
INSERT INTO terms(n, term) VALUES (26, 'yesterday');
INSERT INTO terms(n, term) VALUES (27, 'of');
INSERT INTO passages(n, document, start, stop, headings, length, is_first, term_ids, term_counts) VALUES (1, 1, 20, 59, '["Pump"]', 9, 1, x'02000000030000000400000005000000060000000c0000000d000000', x'0300030003000300030007000300');
INSERT INTO passages(n, document, start, stop, headings, length, is_first, term_ids, term_counts) VALUES (2, 1, 61, 93, '["Pump", "Care"]', 9, 0, x'010000000700000008000000090000000a0000000b0000000c000000', x'0300050003000300030003000400');
INSERT INTO passages(n, document, start, stop, headings, length, is_first, term_ids, term_counts) VALUES (3, 2, 0, 36, '["Ventil größe"]', 15, 1, x'0e0000000f000000100000001100000012000000130000001400000015000000160000001700000018000000', x'03000300030003000300030007000300030007000300');
INSERT INTO state(one, analyzer, documents, passages, length, revision) VALUES (1, 'ANALYZER', 3, 3, 33, '006bc53a365d94f2ee30a0be');
INSERT INTO keys(key, documents) VALUES ('kind', 1);
INSERT INTO found(rowid, words) VALUES (1, '2 3 4 5 6 c d');
INSERT INTO found(rowid, words) VALUES (2, '1 7 8 9 a b c');
INSERT INTO found(rowid, words) VALUES (3, 'e f 10 11 12 13 14 15 16 17 18');
PRAGMA user_version = 1;

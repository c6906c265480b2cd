-- Who a person is for a provider of OpenID Connect. Names and addresses of mail may change there;
-- issuer and subject do not.
CREATE TABLE identities (
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    person     TEXT NOT NULL REFERENCES people (id),
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

"""Prints the made-up pairs of data/score_pairs.tsv: sentences of invented words with all that
tokenizers stumble over, and hypotheses that are those sentences, damaged. Equal for every run."""

import random

SYLLABLES = "ba ke li mo nu ra sel tor vin zum \u00e4r \u00f6s \u00fcn \u00dfe \u00e9l \u0142o".split()
ODD = [
    "1,234.5", "3.14", "2011.", "10-12", "1990-", "-5", "5%", "\u20ac20", "$3.50", "x=y+1", "a/b",
    "&quot;ka&quot;", "&amp;", "&amp;lt;", "&lt;b&gt;", "&nbsp;", "<skipped>", "e-mail", "U.S.A.",
    "l'eau", "\u2018so\u2019", "\u201eja\u201c", "\u00abnon\u00bb", "(ab)", "[c]", "{d}", "...",
    "\u2026", "?!", ".,.,", ",5", "5,", "a.5", "5.a", "C:\\dir", "under_score", "^~`|", "#tag",
    "@you", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e", "\U0001F600",
    "\U0001F468\u200d\U0001F469\u200d\U0001F467", "cafe\u0301", "\u0130STANBUL", "\u039f\u0394\u039f\u03a3",
    "\u03a3\u0391\u03a3.", "STRASSE", "\u1e9e", "\u0661\u0662.\u0663", "\u0967,\u0968", "a\u00a0b",
    "a\u3000b", "\u200bzero", "\u2028", "\u00bd", "\u2116", "\u00ad", "\u01c5", "\ufb01n", "--", "\u2014",
]


def word(random_):
    text = "".join(random_.choice(SYLLABLES) for _ in range(random_.randint(1, 3)))
    kind = random_.random()
    return text.capitalize() if kind < 0.2 else text.upper() if kind < 0.25 else text


def sentence(random_):
    words = [random_.choice(ODD) if random_.random() < 0.25 else word(random_)
             for _ in range(random_.randint(1, 20))]
    return " ".join(words) + random_.choice([".", "!", "?", " .", "", ' "', "  ", ".\""])


def damage(random_, text):
    words = [w for w in text.split(" ") if random_.random() > 0.1]
    for i in range(len(words) - 1):
        if random_.random() < 0.1:
            words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join(w.lower() if random_.random() < 0.05 else
                    w.upper() if random_.random() < 0.05 else
                    w + w if random_.random() < 0.03 else w for w in words)


random_ = random.Random(20)
for index in range(150):
    reference = sentence(random_)
    hypothesis = damage(random_, reference)
    if index % 25 == 3:
        hypothesis = ""
    elif index % 25 == 7:
        reference = ""
    elif index % 25 == 11:
        hypothesis, reference = "", ""
    elif index % 25 == 15:
        hypothesis = sentence(random_)
    print(hypothesis + "\t" + reference)

#!/bin/sh
# test_pages.sh SOURCE ETUDE MAKE_MARIAN: runs the commands of README and the other pages, each page in
# a folder with the files and runs that it mentions.
set -eu
make_marian=$3
. "$(dirname "$0")/pages.sh"

not_typed() {
    cat <<'END'
make *  builds, installs or downloads: tests of tools/ try what it calls
cmake *  builds: whoever runs this test has
build/examples/*  an example: tests of examples/ run them
cc *  compiles with an installed library: package.sh does
./classifier *  an example: tests of examples/ run them
etude tfx scaffold  names a command
etude serve --batch  names an option
etude launch -n 4  names an option
etude launch --restart*  names an option
etude list --experiment  names an option
etude train --distributed  names an option
tar *  an archive that `make bundle` makes: make-bundle tries it
etude-0.1.0-linux-x86_64/bin/etude *  an archive that `make bundle` makes: make-bundle tries it
apt *  installs packages
apt-get *  installs packages
cd etude*  is where the clone is
cd build-tsan *  another build
ETUDE_FUZZ_SECONDS=*  another build
ssh *  another host
tensorboard *  a program of others; resume_tensorboard reads the files
mpirun *  an MPI that builds may lack: ranks tests do
*sbatch *  a cluster
srun *  a cluster
TF_CONFIG=*  hosts that are not there: cli.test_roles_hosts does
tools/tabular-data *  tables that have to be downloaded
FIRST=*  tables that have to be downloaded
build/peers/*  tables that have to be downloaded
etude export runs/a --format marian *  a run of a release of Marian: test_import_marian does
*etude serve enpt/ ptes/*  models of two pairs: test_serve_libre does
curl -d q=*  a server that runs: test_serve_libre does
etude tfx train *  compiles a project: tests of scaffold do
etude train | *  all commands, not one
etude launch -n 2 -- ./program*  a program of the reader's
END
    for program in curl zstd man; do
        command -v $program >/dev/null || echo "*$program *  no $program here"
    done
}

# columns FILE TARGET: a table of 60 rows.
columns() {
    awk -v target="$2" 'BEGIN { print "age,job," target; for (i = 0; i < 60; i++)
        print 20 + i * 7 % 40 "," substr("abc", 1 + i % 3, 1) "," (i * 7 % 40 > 20 ? "yes" : "no") }' >"$1"
}
numbers() {
    awk -v target="$2" 'BEGIN { print "x,y," target; for (i = 0; i < 60; i++)
        print i % 7 "," i % 5 "," i % 7 + i % 5 / 10 }' >"$1"
}

# What pages take to be there, below world/. The encoders are as small as their heads allow.
rm -r text
mkdir world
cd world
ln -s "$source/tools" "$source/examples" .
cp -r "$source/configs" configs
mkdir build tables home
ln -s "$etude" build/etude
for side in en de; do
    text train.$side 120 0
    text new.$side 40 0
    text valid.$side 6 1000
    text test.$side 6 2000
    text legal.$side 40 100
    text news.$side 40 300
    text news-valid.$side 6 4000
    cp train.$side train.lc.norm.tok.$side
    cp valid.$side val.lc.norm.tok.$side
    cp test.$side test_2016_flickr.lc.norm.tok.$side
done
"$make_marian" . 2>/dev/null
mv hf opus-mt-en-de
"$make_marian" . bergamot 2>/dev/null
mv bergamot enpt
cp -r opus-mt-en-de opus-mt-de-en
printf 'ab cd\tef\n' >terms.tsv
for name in legal valid test; do
    cp $name.de $name.pt
done
for side in en de pt; do
    cp legal.$side mine.$side
    cp legal.$side all.$side
done
text mono.de 40 5000
text mono.en 40 6000
text own.en 40 100
text own.de 40 100
etude import opus-mt-en-de --output runs/opus
etude import enpt --output runs/enpt
awk 'BEGIN { print "area,rooms,price,rent"; for (i = 0; i < 60; i++)
    print 40 + i % 7 * 10 "," 1 + i % 4 "," 200 + i % 7 * 50 + i % 3 "," 5 + i % 7 + i % 5 / 10 }' >houses.csv
columns people.csv income
columns customers.csv bought
for copy in adult new adult-train train part-1; do
    cp people.csv $copy.csv
done
gzip part-1.csv
cut -d, -f1,2 people.csv >rows.csv
numbers red.csv quality
echo '<p>A dog runs. A cat sleeps.</p>' >page.html
numbers white.csv quality
numbers tables/california-1-train.csv MedHouseVal
cp tables/california-1-train.csv tables/california-1-test.csv
small='--set task.model.embedding_width=16,task.vocabulary.max_size=60'
for run in a b help; do
    # shellcheck disable=SC2086 # words
    etude train runs/$run -q --experiment translation/auto --data train.en train.de --valid valid.en \
        valid.de --steps 12 --set trainer.summary_interval=4,trainer.checkpoint_interval=6 $small
done
etude train runs/table -q --experiment tabular/mlp --data people.csv --target income --steps 12
cp runs/table/schema.yaml .
cp -r runs/opus runs/teacher
cp -r runs/table runs/classifier
cp -r runs/table runs/income
zstd -q train.csv 2>/dev/null || :
awk '/^    experiment: multitask/ { on = 1 } !/^    / { on = 0 } on { print substr($0, 5) }' \
    "$source/doc/reference/command.md" >joint.yaml
etude train runs/joint -q --config joint.yaml --steps 12
cd ..

# page NAME LEAST [SED]: in a world of its own.
page() {
    rm -rf here
    cp -r world here
    cd here
    type_page "$@"
    cd ..
}
tiny="s|--experiment translation/tiny \|--data train.en train.de |$small &|"
PATH=$work/world/build:$PATH HOME=$work/world/home
export PATH HOME

page README.md 6 "$tiny; s|build/etude import enpt/ --output runs/enpt|rm -r runs/enpt; &|"
page configs/README.md 1 "$tiny"
page doc/watch.md 6
page doc/finetune.md 12 's|etude import enpt/ --output runs/enpt|rm -r runs/enpt; &|; s|augment runs/enpt|& --max-ratio 0|'
page doc/resume-and-clusters.md 7 "$tiny"
page doc/deploy.md 14 's/export runs\/a --format \(marian\|huggingface\)/export runs\/opus --format \1/
    s/export runs\/a --format bergamot/export runs\/enpt --format bergamot/'
page doc/recipes.md 7 "s|--config |$small,task.vocabulary.size=60,trainer.checkpoint_interval=1 &|"
page doc/your-model.md 2
page doc/coming-from.md 1 's|t.csv --target c|people.csv --target income|'
page doc/reference/profile.md 3 's|train --steps 12 \.\.\.|train runs/p --experiment tabular/mlp --data people.csv --target income --steps 24|
    s|translate \.\.\.|translate runs/a|; s|100:110|4:8|'
page doc/reference/command.md 25 "$tiny; s|etude import enpt/ --output runs/enpt|rm -r runs/enpt; &|; s|augment runs/de-en|augment runs/opus|; s|--model-dir runs/a|$small &|
    s|1000|12|; s|RUN|runs/joint|; s|red < rows|red < red|; s|age,hours|age|"
page doc/reference/scale.md 1 "$tiny"
page doc/modelgarden.md 3
page doc/tensorfx.md 2 's|species|income|'
for page in CONTRIBUTING.md doc/install.md doc/testing.md doc/your-loop.md doc/orbit.md doc/tfsnippet.md doc/api.md; do
    page $page 0
done
end_pages

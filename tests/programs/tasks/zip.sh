# zip packs and unzip unpacks
# needs: zip unzip
echo content >file
zip -q a.zip file
rm file
unzip -q a.zip
[ "$(cat file)" = content ]

# pip list.
python3 -m pip list > list
